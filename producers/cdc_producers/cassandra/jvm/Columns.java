package cdcviews;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.ListType;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * Rows of one table's raw table, as far as that needs no knowledge of types: values stay serialized, but for integers.
 *
 * <p>The layout's struct has: kind, position, the partition key, the clustering key, row marker, deletion, both bounds
 * (where there is a clustering key), then the other columns in the order of `columns`.
 */
final class Columns {
    /** What the layout has no place for; such an update becomes an event of its own. */
    static final class NoPlace extends RuntimeException {
        NoPlace(String what) {
            super(what, null, false, false);
        }
    }

    private static final int FULL_ROWS = 8192;
    private static final int FULL_BYTES = 1 << 20;
    private static final int ROW = 0, STATIC = 1, PARTITION = 2, RANGE = 3;
    private static final long FLOOR = Long.MIN_VALUE;
    private static final long EPOCH = 0x01B21DD213814000L, REFERENCE = 1_262_304_000_000_000L;

    private final int number;
    private final Vector.Struct rows;
    private final Map<String, Integer> places = new HashMap<>();
    private final Map<String, Map<String, Integer>> fields = new HashMap<>();
    private final int partitionSize, clusteringSize, live;
    private final long listsSince;
    private Bytes out = new Bytes(1 << 16);
    private int events, bytes, first, last;
    private ByteBuffer[] partition;

    Columns(int number, JsonNode plan) {
        this.number = number;
        rows = (Vector.Struct) Vector.of(plan.get("layout"));
        partitionSize = plan.get("partition").asInt();
        clusteringSize = plan.get("clustering").asInt();
        listsSince = plan.path("lists_since").asLong();
        live = 2 + partitionSize + clusteringSize;
        int at = live + (clusteringSize > 0 ? 4 : 2);
        for (JsonNode column : plan.get("columns")) {
            places.put(column.get("name").asText(), at++);
            Map<String, Integer> inside = fields.computeIfAbsent(column.get("name").asText(), n -> new HashMap<>());
            column.get("fields").forEach(field -> inside.put(field.asText(), inside.size()));
        }
    }

    /** Adds an update's rows; leaves nothing of them where it throws. */
    void add(PartitionUpdate update, int position, int size) {
        int before = rows.count;
        try {
            update(update, position);
        } catch (RuntimeException | AssertionError error) {
            rows.truncate(before);
            throw error;
        }
        first = events == 0 ? position : first;
        last = position;
        events++;
        bytes += size;
    }

    boolean isFull() {
        return rows.count >= FULL_ROWS || bytes >= FULL_BYTES;
    }

    void handOver(Frames frames) throws IOException {
        if (events == 0) {
            return;
        }
        out.clear();
        int at = out.skip(20);
        int[] told = {number, rows.count, events, first, last};
        for (int i = 0; i < told.length; i++) {
            out.putInt(at + 4 * i, told[i]);
        }
        rows.write(out);
        frames.rows(out);
        rows.truncate(0);
        events = bytes = 0;
    }

    private void update(PartitionUpdate update, int position) {
        ByteBuffer key = update.partitionKey().getKey();
        TableMetadata table = update.metadata();
        partition = partitionSize == 1 ? new ByteBuffer[] {key} : ((CompositeType) table.partitionKeyType).split(key);
        for (ByteBuffer part : partition) {
            if (!part.hasRemaining()) {
                throw new NoPlace("a part of the key has 0 bytes");
            }
        }
        if (!update.partitionLevelDeletion().isLive()) {
            begin(PARTITION, position);
            deletion(update.partitionLevelDeletion());
            rows.end();
        }
        if (!update.staticRow().isEmpty()) {
            row(update.staticRow(), position);
        }
        RangeTombstoneMarker opened = null;
        try (UnfilteredRowIterator each = update.unfilteredIterator()) {
            while (each.hasNext()) {
                Unfiltered one = each.next();
                if (one.isRow()) {
                    row((Row) one, position);
                    continue;
                }
                RangeTombstoneMarker marker = (RangeTombstoneMarker) one;
                if (marker.isClose(false)) {
                    begin(RANGE, position);
                    deletion(marker.closeDeletionTime(false));
                    bound(live + 2, opened.clustering(), opened.openIsInclusive(false));
                    bound(live + 3, marker.clustering(), marker.closeIsInclusive(false));
                    rows.end();
                }
                if (marker.isOpen(false)) {
                    opened = marker;
                }
            }
        }
    }

    private void begin(int kind, int position) {
        rows.begin();
        rows.part(0, Vector.Fixed.class).add(kind);
        rows.part(1, Vector.Fixed.class).add(position);
        for (int i = 0; i < partitionSize; i++) {
            value(rows.part(2 + i, Vector.Leaf.class), partition[i]);
        }
    }

    private void deletion(DeletionTime time) {
        if (time.markedForDeleteAt() < listsSince && listsSince > 0) {
            throw new NoPlace("a deletion from before lists were read");
        }
        Vector.Struct at = rows.part(live + 1, Vector.Struct.class);
        at.begin();
        at.addLongs(time.markedForDeleteAt(), time.localDeletionTime());
    }

    private void bound(int place, ClusteringPrefix<?> prefix, boolean inclusive) {
        Vector.Struct at = rows.part(place, Vector.Struct.class);
        at.begin();
        at.part(0, Vector.Fixed.class).add(prefix.size());
        at.part(1, Vector.Bool.class).add(inclusive);
        for (int i = 0; i < prefix.size(); i++) {
            value(at.part(2 + i, Vector.Leaf.class), prefix.bufferAt(i));
        }
        at.end();
    }

    private void row(Row row, int position) {
        begin(row.isStatic() ? STATIC : ROW, position);
        for (int i = 0; !row.isStatic() && i < clusteringSize; i++) {
            value(rows.part(2 + partitionSize + i, Vector.Leaf.class), row.clustering().bufferAt(i));
        }
        LivenessInfo liveness = row.primaryKeyLivenessInfo();
        if (!liveness.isEmpty()) {
            Vector.Struct at = rows.part(live, Vector.Struct.class);
            at.begin();
            long rank = liveness.isExpiring() ? expiring(liveness.ttl(), liveness.localExpirationTime()) : FLOOR;
            at.addLongs(liveness.timestamp(), rank + 1);
        }
        if (!row.deletion().isLive()) {
            deletion(row.deletion().time());
        }
        for (ColumnData data : row) {
            column(data);
        }
        rows.end();
    }

    private void column(ColumnData data) {
        Integer place = places.get(data.column().name.toString());
        if (place == null || data.column().type.isCounter()) {
            throw new NoPlace("column " + data.column().name);
        }
        Vector.Struct at = rows.part(place, Vector.Struct.class);
        if (!data.column().isComplex()) {
            at.begin();
            cell(at, 0, (Cell<?>) data);
            return;
        }
        ComplexColumnData complex = (ComplexColumnData) data;
        if (listsSince > 0 && complex.column().type instanceof ListType && isOld(complex)) {
            throw new NoPlace("an old part of a list");
        }
        at.begin();
        if (!complex.complexDeletion().isLive()) {
            Vector.Struct deletion = at.part(0, Vector.Struct.class);
            deletion.begin();
            deletion.addLongs(complex.complexDeletion().markedForDeleteAt(), complex.complexDeletion().localDeletionTime());
        }
        if (complex.cellsCount() > 0) {
            cells(at, complex);
        }
        at.end();
    }

    /** Whether it says something of what a snapshot told of the list; see lists.py. */
    private boolean isOld(ComplexColumnData complex) {
        if (!complex.complexDeletion().isLive() && complex.complexDeletion().markedForDeleteAt() < listsSince) {
            return true;
        }
        for (Cell<?> cell : complex) {
            if (cell.timestamp() < listsSince || created(cell.path().get(0)) < listsSince) {
                return true;
            }
        }
        return false;
    }

    /** When an element was added (microseconds): prepended ones have paths that count down from 2010. */
    private static long created(ByteBuffer path) {
        long high = path.getLong(path.position());
        long ticks = (high & 0x0FFF) << 48 | (high >>> 16 & 0xFFFF) << 32 | high >>> 32;
        long at = (ticks - EPOCH) / 10;
        return at >= REFERENCE ? at : 2 * REFERENCE - at;
    }

    private void cells(Vector.Struct at, ComplexColumnData complex) {
        if (complex.column().type instanceof UserType) {
            Vector.Struct inside = at.part(1, Vector.Struct.class);
            inside.begin();
            for (Cell<?> cell : complex) {
                Vector.Struct field = inside.part(field((UserType) complex.column().type, cell, complex), Vector.Struct.class);
                field.begin();
                cell(field, 0, cell);
            }
            inside.end();
            return;
        }
        Vector.ListOf list = at.part(1, Vector.ListOf.class);
        Vector.Struct element = (Vector.Struct) list.element;
        list.begin();
        for (Cell<?> cell : complex) {
            element.begin();
            value(element.part(0, Vector.Leaf.class), cell.path().get(0));
            cell(element, 1, cell);
        }
        list.end();
    }

    private int field(UserType type, Cell<?> cell, ComplexColumnData complex) {
        String name = type.fieldNameAsString(ByteBufferUtil.toShort(cell.path().get(0)));
        Integer place = fields.get(complex.column().name.toString()).get(name);
        if (place == null) {
            throw new NoPlace("field " + name);
        }
        return place;
    }

    /** Adds write time, rank (as cells.rank packs them) and, where the layout has a place for it, the value. */
    private void cell(Vector.Struct at, int from, Cell<?> cell) {
        ByteBuffer value = cell.buffer();
        long rank =
                cell.isTombstone()
                        ? cell.localDeletionTime()
                        : (cell.ttl() == Cell.NO_TTL ? FLOOR : expiring(cell.ttl(), cell.localDeletionTime()))
                                + (value.hasRemaining() ? 1 : 0);
        at.part(from, Vector.Fixed.class).add(cell.timestamp());
        at.part(from + 1, Vector.Fixed.class).add(rank);
        if (at.parts.size() > from + 2) {
            Vector.Leaf leaf = at.part(from + 2, Vector.Leaf.class);
            if (cell.isTombstone()) {
                leaf.addNull();
            } else {
                value(leaf, value);
            }
        }
    }

    private static long expiring(int ttl, long at) {
        return FLOOR + (at << 31) + ((long) ((1 << 30) - 1 - ttl) << 1);
    }

    private static void value(Vector.Leaf leaf, ByteBuffer value) {
        if (!leaf.addValue(value)) {
            throw new NoPlace("a value of " + value.remaining() + " bytes");
        }
    }
}
