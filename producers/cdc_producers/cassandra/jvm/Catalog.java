package cdcviews;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.cassandra.cql3.CQLFragmentParser;
import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.CqlParser;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.Keyspaces;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.SchemaTransformation;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.ClientState;

/** The tables whose mutations are wanted, and those that are known and passed over. */
final class Catalog {
    private final Map<TableId, Integer> wanted = new HashMap<>();
    private final List<Columns> columns = new ArrayList<>();
    private final Set<TableId> known = new HashSet<>();

    /** Takes a schema in place of the one before; returns what could not be taken, by table. */
    Map<String, String> take(JsonNode schema) throws Exception {
        Map<String, String> failed = new HashMap<>();
        Keyspaces keyspaces = Keyspaces.none();
        for (JsonNode part : schema.get("definitions")) {
            Keyspaces before = keyspaces;
            try {
                for (JsonNode statement : part.get("cql")) {
                    if (statement.asText().startsWith("ALTER")) {
                        loadAll(keyspaces); // a column is dropped only from a table that is known
                    }
                    keyspaces = transformation(statement.asText()).apply(keyspaces);
                }
            } catch (Exception | LinkageError | AssertionError error) {
                keyspaces = before;
                failed.put(part.get("name").asText(), String.valueOf(error));
            }
        }
        loadAll(keyspaces);
        wanted.clear();
        known.clear();
        columns.clear();
        for (JsonNode plan : schema.get("plans")) {
            columns.add(plan.isNull() ? null : new Columns(columns.size(), plan));
        }
        for (JsonNode id : schema.get("wanted")) {
            wanted.put(TableId.fromUUID(UUID.fromString(id.asText())), wanted.size());
        }
        for (JsonNode id : schema.get("known")) {
            known.add(TableId.fromUUID(UUID.fromString(id.asText())));
        }
        return failed;
    }

    /** Returns a wanted table's number; -1: the table is passed over. */
    int number(TableId id) {
        return wanted.getOrDefault(id, -1);
    }

    /** Returns where a table's rows are gathered; null: its updates become events of JSON. */
    Columns columns(int number) {
        return columns.get(number);
    }

    List<Columns> columns() {
        return columns;
    }

    boolean isKnown(TableId id) {
        return wanted.containsKey(id) || known.contains(id);
    }

    private static SchemaTransformation transformation(String cql) throws Exception {
        CQLStatement statement = CQLFragmentParser.parseAnyUnhandled(CqlParser::query, cql).prepare(ClientState.forInternalCalls());
        return (SchemaTransformation) statement;
    }

    private static void loadAll(Keyspaces keyspaces) throws Exception {
        for (KeyspaceMetadata keyspace : keyspaces) {
            load(keyspace);
        }
    }

    /** Makes the keyspace what the deserializers find; there is no public way that all versions have. */
    private static void load(KeyspaceMetadata keyspace) throws Exception {
        Method load = Schema.class.getDeclaredMethod("load", KeyspaceMetadata.class);
        load.setAccessible(true);
        load.invoke(Schema.instance, keyspace);
    }

}
