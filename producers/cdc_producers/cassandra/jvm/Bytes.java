package cdcviews;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A growing array of bytes that JSON text is written to. */
final class Bytes {
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

    byte[] content;
    int size;

    Bytes(int room) {
        content = new byte[room];
    }

    void clear() {
        size = 0;
    }

    Bytes add(byte[] text) {
        reserve(text.length);
        System.arraycopy(text, 0, content, size, text.length);
        size += text.length;
        return this;
    }

    void add(byte[] bytes, int count) {
        reserve(count);
        System.arraycopy(bytes, 0, content, size, count);
        size += count;
    }

    void add(ByteBuffer bytes) {
        int count = bytes.remaining();
        reserve(count);
        bytes.duplicate().get(content, size, count);
        size += count;
    }

    void add(byte one) {
        reserve(1);
        content[size++] = one;
    }

    /** Adds an integer's low bytes, the lowest first. */
    void addLittle(long value, int width) {
        reserve(width);
        for (int i = 0; i < width; i++) {
            content[size++] = (byte) (value >>> (8 * i));
        }
    }

    long little(int at, int width) {
        long found = 0;
        for (int i = 0; i < width; i++) {
            found |= (content[at + i] & 255L) << (8 * i);
        }
        return found;
    }

    Bytes add(char letter) {
        reserve(1);
        content[size++] = (byte) letter;
        return this;
    }

    Bytes add(String text) {
        return add(text.getBytes(StandardCharsets.UTF_8));
    }

    Bytes add(long number) {
        return add(Long.toString(number).getBytes(StandardCharsets.ISO_8859_1));
    }

    /** Adds the hex digits of a buffer's bytes, in quotes. */
    Bytes addHex(ByteBuffer bytes) {
        int from = bytes.position(), to = bytes.limit();
        reserve(2 * (to - from) + 2);
        content[size++] = '"';
        for (int i = from; i < to; i++) {
            byte one = bytes.get(i);
            content[size++] = HEX[(one >> 4) & 15];
            content[size++] = HEX[one & 15];
        }
        content[size++] = '"';
        return this;
    }

    /** Writes a big-endian integer at a place that was reserved with {@link #skip}. */
    void putInt(int at, int value) {
        content[at] = (byte) (value >>> 24);
        content[at + 1] = (byte) (value >>> 16);
        content[at + 2] = (byte) (value >>> 8);
        content[at + 3] = (byte) value;
    }

    int skip(int bytes) {
        reserve(bytes);
        int at = size;
        size += bytes;
        return at;
    }

    private void reserve(int bytes) {
        if (size + bytes > content.length) {
            content = Arrays.copyOf(content, Math.max(content.length * 2, size + bytes));
        }
    }
}
