package cdcviews;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.commitlog.CommitLogDescriptor;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.commitlog.CommitLogReadHandler;
import org.apache.cassandra.db.commitlog.CommitLogReader;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.DeserializationHelper;
import org.apache.cassandra.exceptions.UnknownTableException;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.schema.TableId;

/**
 * One range of one commit log segment.
 *
 * <p>Cassandra's reader finds the mutations and checks their sums; what is done with one is ours: only the updates of
 * wanted tables are turned into events, and nothing that cannot be read is passed over without being told of.
 */
final class Segment extends CommitLogReader implements CommitLogReadHandler {
    private static final Halt REACHED = new Halt("limit", "");

    private final Catalog catalog;
    private final Lines lines;
    private final Frames frames;
    private final int from;
    private final int limit;
    private final boolean passesOver;
    private final boolean asLines;
    private int position;
    private long mutations;
    private Halt halt;

    Segment(Catalog catalog, Lines lines, Frames frames, Range range) {
        this.catalog = catalog;
        this.lines = lines;
        this.frames = frames;
        this.from = range.from;
        this.limit = range.limit;
        this.passesOver = range.passesOver;
        this.asLines = range.asLines;
        this.position = range.from;
    }

    /** What is to be read: mutations that end after `from` and not after `limit`. */
    static final class Range {
        final String path;
        final long segment;
        final int from;
        final int limit;
        final boolean passesOver;
        final boolean asLines;

        Range(String path, long segment, int from, int limit, boolean passesOver, boolean asLines) {
            this.path = path;
            this.segment = segment;
            this.from = from;
            this.limit = limit;
            this.passesOver = passesOver;
            this.asLines = asLines;
        }
    }

    /** Why reading ended before the range did. */
    static final class Halt extends IOException {
        final Map<String, Object> facts = new HashMap<>();

        Halt(String why, String reason) {
            super(reason);
            facts.put("why", why);
            facts.put("reason", reason);
        }
    }

    int position() {
        return position;
    }

    long mutations() {
        return mutations;
    }

    /** Returns null where all was read, else why not. */
    Halt read(Range range) throws Exception {
        CommitLogPosition start = new CommitLogPosition(range.segment, range.from);
        try {
            for (Method method : CommitLogReader.class.getMethods()) {
                if (method.getName().equals("readCommitLogSegment") && method.getParameterCount() == 5) {
                    // io.util.File in 4.1 and later, java.io.File before
                    Object file = method.getParameterTypes()[1].getConstructor(String.class).newInstance(range.path);
                    method.invoke(this, this, file, start, ALL_MUTATIONS, true);
                }
            }
        } catch (InvocationTargetException wrapped) {
            halt = halt == null ? new Halt("corrupt", String.valueOf(wrapped.getCause())) : halt;
        }
        handOver();
        return halt == REACHED ? null : halt;
    }

    @Override
    protected void readMutation(
            CommitLogReadHandler handler, byte[] content, int size, CommitLogPosition start, int end, CommitLogDescriptor segment)
            throws IOException {
        if (end <= from) {
            return;
        }
        if (end > limit) {
            throw stop(REACHED);
        }
        try {
            updates(content, size, end, segment);
        } catch (UnknownTableException error) {
            Halt unknown = new Halt("table", "table id " + error.id + " is in no schema");
            unknown.facts.put("table_id", String.valueOf(error.id));
            throw stop(with(unknown, content, size, end));
        } catch (IOException | RuntimeException | AssertionError | StackOverflowError error) {
            if (halt != null) {
                throw halt;
            }
            throw stop(with(new Halt("mutation", reason(error)), content, size, end));
        }
        position = end;
        mutations++;
    }

    private void updates(byte[] content, int size, int end, CommitLogDescriptor segment) throws IOException {
        try (DataInputBuffer in = new DataInputBuffer(content, 0, size)) {
            int count = (int) in.readUnsignedVInt();
            if (isPassedOver(ByteBuffer.wrap(content, 0, size), count)) {
                return;
            }
            // all of them before any is written: a mutation that cannot be read leaves nothing of itself
            List<PartitionUpdate> updates = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                if (!deserialize(in, segment, updates)) {
                    checkPassedOver(content, size);
                    return;
                }
            }
            for (PartitionUpdate update : updates) {
                update(update, segment.id, end, size);
            }
        }
    }

    /** Returns false for an update of a table that is passed over and has no definition: what follows it cannot be found. */
    private boolean deserialize(DataInputBuffer in, CommitLogDescriptor segment, List<PartitionUpdate> updates) throws IOException {
        try {
            updates.add(PartitionUpdate.serializer.deserialize(in, segment.getMessagingVersion(), DeserializationHelper.Flag.LOCAL));
            return true;
        } catch (UnknownTableException error) {
            if (error.id != null && catalog.isKnown(error.id)) {
                return false;
            }
            throw error;
        }
    }

    /** Refuses to pass over a batch in which the id of a wanted table occurs. */
    private void checkPassedOver(byte[] content, int size) {
        ByteBuffer bytes = ByteBuffer.wrap(content, 0, size);
        for (int at = 1; at + 16 <= size; at++) {
            if (catalog.number(TableId.fromUUID(new UUID(bytes.getLong(at), bytes.getLong(at + 8)))) >= 0) {
                throw new Unreadable("a batch in which an update of a dropped table stands beside one of this table");
            }
        }
    }

    private void update(PartitionUpdate update, long segment, int end, int size) throws IOException {
        int number = catalog.number(update.metadata().id);
        if (number < 0) {
            return;
        }
        Columns columns = asLines ? null : catalog.columns(number);
        if (columns != null) {
            try {
                columns.add(update, end, size);
                if (columns.isFull()) {
                    columns.handOver(frames);
                }
                return;
            } catch (Columns.NoPlace none) {
                columns.handOver(frames); // what came before goes before
            }
        }
        int mark = frames.mark();
        try {
            lines.write(frames.begin(number, end), update, segment, end);
        } catch (RuntimeException | AssertionError | StackOverflowError error) {
            frames.back(mark);
            throw error;
        }
        frames.end(mark);
        frames.handOver();
    }

    private void handOver() throws IOException {
        for (Columns columns : catalog.columns()) {
            if (columns != null) {
                columns.handOver(frames);
            }
        }
    }

    /** Whether it is one update of a table nobody asked for: most mutations of a node are, and reading them costs. */
    private boolean isPassedOver(ByteBuffer content, int count) {
        if (count != 1) {
            return false;
        }
        TableId id = TableId.fromUUID(new UUID(content.getLong(1), content.getLong(9)));
        return catalog.number(id) < 0 && catalog.isKnown(id);
    }

    private static Halt with(Halt halt, byte[] content, int size, int end) {
        halt.facts.put("at", end);
        halt.facts.put("bytes", Arrays.copyOf(content, size));
        return halt;
    }

    private static String reason(Throwable error) {
        return error instanceof Unreadable ? error.getMessage() : String.valueOf(error);
    }

    private Halt stop(Halt with) {
        halt = with;
        return with;
    }

    @Override
    public boolean shouldSkipSegmentOnError(CommitLogReadException error) throws IOException {
        boolean isOneMutation = error.getMessage().startsWith("Mutation checksum failure");
        if (passesOver && isOneMutation) {
            Main.tellBad(frames, error.getMessage());
            return false;
        }
        throw stop(new Halt("corrupt", String.valueOf(error.getMessage())));
    }

    @Override
    public void handleUnrecoverableError(CommitLogReadException error) throws IOException {
        throw stop(new Halt("corrupt", String.valueOf(error.getMessage())));
    }

    @Override
    public void handleMutation(Mutation mutation, int size, int end, CommitLogDescriptor segment) {
        throw new IllegalStateException("readMutation hands none over");
    }

    /** Newer versions have it in the interface. */
    public void handleInvalidMutation(TableId id) {
        throw new IllegalStateException("readMutation hands none over");
    }
}
