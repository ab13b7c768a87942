package cdcviews;

import java.io.IOException;
import java.io.OutputStream;

/**
 * What Python hears: frames of one letter, a length and a payload.
 *
 * <p>E: events, each as table number, position and length (three integers), then its JSON text. C: rows of one table
 * ({@link Columns}). Every other kind has JSON: R ready or schema taken, D a range is read, S stuck (something must change before the range can be read on),
 * B bytes of the segment that cannot be read, and which are passed over.
 */
final class Frames {
    private static final int FULL = 1 << 18;

    private final OutputStream out;
    private final Bytes events = new Bytes(1 << 16);
    private final byte[] head = new byte[5];

    Frames(OutputStream out) {
        this.out = out;
    }

    /** Returns where the next event's text is written; {@link #end} ends it. */
    Bytes begin(int table, int position) {
        int at = events.skip(12);
        events.putInt(at, table);
        events.putInt(at + 4, position);
        return events;
    }

    int mark() {
        return events.size;
    }

    /** Takes back what was written since the mark: an event that could not be written wholly. */
    void back(int mark) {
        events.size = mark;
    }

    void end(int mark) {
        events.putInt(mark + 8, events.size - mark - 12);
    }

    /** Hands over what is written, once it is much; called between mutations, so that one can be taken back whole. */
    void handOver() throws IOException {
        if (events.size >= FULL) {
            flush();
        }
    }

    void say(char kind, String json) throws IOException {
        flush();
        byte[] text = json.getBytes(java.nio.charset.StandardCharsets.UTF_8);
        write(kind, text, text.length);
        out.flush();
    }

    /** Hands over a batch of a table's rows: its number, what it holds, its arrays. */
    void rows(Bytes batch) throws IOException {
        flush();
        write('C', batch.content, batch.size);
    }

    private void flush() throws IOException {
        if (events.size > 0) {
            write('E', events.content, events.size);
            events.clear();
        }
    }

    private void write(char kind, byte[] payload, int size) throws IOException {
        head[0] = (byte) kind;
        for (int i = 0; i < 4; i++) {
            head[1 + i] = (byte) (size >>> (24 - 8 * i));
        }
        out.write(head);
        out.write(payload, 0, size);
    }
}
