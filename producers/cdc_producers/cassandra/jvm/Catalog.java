package cdcviews;

import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.HashSet;
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
    private final Set<TableId> known = new HashSet<>();

    /** Takes a schema in place of the one before; returns what could not be taken, by table. */
    Map<String, String> take(JsonNode schema) throws Exception {
        Map<String, String> failed = new HashMap<>();
        Keyspaces keyspaces = Keyspaces.none();
        for (JsonNode part : schema.get("definitions")) {
            Keyspaces before = keyspaces;
            try {
                for (JsonNode statement : part.get("cql")) {
                    keyspaces = transformation(statement.asText()).apply(keyspaces);
                }
            } catch (Exception | LinkageError | AssertionError error) {
                keyspaces = before;
                failed.put(part.get("name").asText(), String.valueOf(error));
            }
        }
        for (KeyspaceMetadata keyspace : keyspaces) {
            load(keyspace);
        }
        wanted.clear();
        known.clear();
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

    boolean isKnown(TableId id) {
        return wanted.containsKey(id) || known.contains(id);
    }

    private static SchemaTransformation transformation(String cql) throws Exception {
        CQLStatement statement = CQLFragmentParser.parseAnyUnhandled(CqlParser::query, cql).prepare(ClientState.forInternalCalls());
        return (SchemaTransformation) statement;
    }

    /** Makes the keyspace what the deserializers find; there is no public way that all versions have. */
    private static void load(KeyspaceMetadata keyspace) throws Exception {
        Method load = Schema.class.getDeclaredMethod("load", KeyspaceMetadata.class);
        load.setAccessible(true);
        load.invoke(Schema.instance, keyspace);
    }

}
