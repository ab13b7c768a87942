package cdcviews;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.CollectionType;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;

/** One partition update as one JSON object of the wire format cassandra-mutation/1. */
final class Lines {
    private final Values values = new Values();
    private final byte[] node;
    private Bytes out;
    private TableMetadata table;

    Lines(String node) {
        this.node = Values.quote(node).getBytes(StandardCharsets.UTF_8);
    }

    /** Writes an update; throws where something of it cannot be written, and says which column. */
    void write(Bytes to, PartitionUpdate update, long segment, int position) {
        out = to;
        table = update.metadata();
        opening(update, segment, position);
        if (!update.partitionLevelDeletion().isLive()) {
            deletion(",\"partition_deletion\":", update.partitionLevelDeletion());
        }
        rows(update);
        out.add('}');
    }

    private void opening(PartitionUpdate update, long segment, int position) {
        out.add("{\"format\":\"cassandra-mutation/1\",\"node\":").add(node).add(",\"segment\":").add(segment);
        out.add(",\"position\":").add((long) position);
        out.add(",\"keyspace\":").add(values.name(table.keyspace)).add(",\"table\":").add(values.name(table.name));
        out.add(",\"partition\":{");
        ByteBuffer key = update.partitionKey().getKey();
        int count = table.partitionKeyColumns().size();
        ByteBuffer[] parts = count == 1 ? new ByteBuffer[] {key} : ((CompositeType) table.partitionKeyType).split(key);
        for (int i = 0; i < count; i++) {
            named(table.partitionKeyColumns().get(i), parts[i], i);
        }
        out.add('}');
    }

    private void named(ColumnMetadata column, ByteBuffer value, int index) {
        if (index > 0) {
            out.add(',');
        }
        out.add(values.name(column.name.toString())).add(':');
        values.write(out, column.type, value);
    }

    private void rows(PartitionUpdate update) {
        int count = 0;
        if (!update.staticRow().isEmpty()) {
            count = separate(count);
            row(update.staticRow());
        }
        RangeTombstoneMarker opened = null;
        try (UnfilteredRowIterator each = update.unfilteredIterator()) {
            while (each.hasNext()) {
                Unfiltered one = each.next();
                if (one.isRow()) {
                    count = separate(count);
                    row((Row) one);
                    continue;
                }
                RangeTombstoneMarker marker = (RangeTombstoneMarker) one;
                if (marker.isClose(false)) {
                    count = separate(count);
                    range(opened, marker);
                }
                if (marker.isOpen(false)) {
                    opened = marker;
                }
            }
        }
        if (count > 0) {
            out.add(']');
        }
    }

    private int separate(int count) {
        out.add(count == 0 ? ",\"rows\":[" : ",");
        return count + 1;
    }

    private void range(RangeTombstoneMarker from, RangeTombstoneMarker to) {
        out.add("{\"kind\":\"range_deletion\",\"start\":");
        bound(from.clustering(), from.openIsInclusive(false));
        out.add(",\"end\":");
        bound(to.clustering(), to.closeIsInclusive(false));
        deletion(",\"deletion\":", to.closeDeletionTime(false));
        out.add('}');
    }

    private void bound(ClusteringPrefix<?> prefix, boolean inclusive) {
        out.add('{');
        clustering(prefix);
        out.add(inclusive ? ",\"inclusive\":true}" : ",\"inclusive\":false}");
    }

    private void clustering(ClusteringPrefix<?> prefix) {
        out.add("\"clustering\":{");
        for (int i = 0; i < prefix.size(); i++) {
            named(table.clusteringColumns().get(i), prefix.bufferAt(i), i);
        }
        out.add('}');
    }

    private void row(Row row) {
        out.add(row.isStatic() ? "{\"kind\":\"static\"" : "{\"kind\":\"row\",");
        if (!row.isStatic()) {
            clustering((Clustering<?>) row.clustering());
        }
        LivenessInfo liveness = row.primaryKeyLivenessInfo();
        if (!liveness.isEmpty()) {
            out.add(",\"liveness\":{\"written\":").add(liveness.timestamp());
            if (liveness.isExpiring()) {
                expiry(liveness.ttl(), liveness.localExpirationTime());
            }
            out.add('}');
        }
        if (!row.deletion().isLive()) {
            deletion(",\"deletion\":", row.deletion().time());
        }
        int count = 0;
        for (ColumnData data : row) {
            count = column(data, count);
        }
        out.add(count > 0 ? "]}" : "}");
    }

    private int column(ColumnData data, int count) {
        if (!data.column().isComplex()) {
            return cell((Cell<?>) data, count);
        }
        ComplexColumnData complex = (ComplexColumnData) data;
        int now = count;
        if (!complex.complexDeletion().isLive()) {
            now = cellOpening(data.column(), now);
            deletion(",\"deletion\":", complex.complexDeletion());
            out.add('}');
        }
        for (Cell<?> cell : complex) {
            now = cell(cell, now);
        }
        return now;
    }

    private int cellOpening(ColumnMetadata column, int count) {
        out.add(count == 0 ? ",\"cells\":[" : ",").add("{\"column\":").add(values.name(column.name.toString()));
        return count + 1;
    }

    private int cell(Cell<?> cell, int count) {
        ColumnMetadata column = cell.column();
        if (cell.isCounterCell() || column.type.isCounter()) {
            throw new Unreadable("column '" + column.name + "' is a counter, which does not reconcile as cells do (rule W5)");
        }
        int now = cellOpening(column, count);
        AbstractType<?> type = column.cellValueType();
        if (cell.path() != null) {
            type = path(column, cell.path().get(0), type);
        }
        out.add(",\"written\":").add(cell.timestamp());
        if (cell.isTombstone()) {
            out.add(",\"deleted_at\":").add(cell.localDeletionTime()).add('}');
            return now;
        }
        if (cell.ttl() != Cell.NO_TTL) {
            expiry(cell.ttl(), cell.localDeletionTime());
        }
        ByteBuffer value = cell.buffer();
        out.add(",\"value\":");
        values.write(out, type, value);
        out.add(",\"bytes\":").addHex(value).add('}');
        return now;
    }

    private AbstractType<?> path(ColumnMetadata column, ByteBuffer path, AbstractType<?> valueType) {
        out.add(",\"path\":");
        if (column.type instanceof UserType) {
            UserType type = (UserType) column.type;
            int field = ByteBufferUtil.toShort(path);
            out.add(values.name(type.fieldNameAsString(field)));
            return type.type(field);
        }
        values.write(out, ((CollectionType<?>) column.type).nameComparator(), path);
        return valueType;
    }

    private void deletion(String member, DeletionTime time) {
        out.add(member).add("{\"written\":").add(time.markedForDeleteAt());
        out.add(",\"deleted_at\":").add(time.localDeletionTime()).add('}');
    }

    private void expiry(int ttl, long at) {
        out.add(",\"ttl\":").add((long) ttl).add(",\"expires_at\":").add(at);
    }
}
