package cdcviews;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

import com.fasterxml.jackson.databind.JsonNode;

/**
 * One array of a batch of rows, in the memory layout of Apache Arrow: validity bits, offsets, values.
 *
 * <p>A layout is JSON: {"struct":[…]}, {"list":…}, or the name of a leaf: i1, i2, i4, i8 (integers of as many bytes), date,
 * bool, bytes.
 */
abstract class Vector {
    private final Bytes valid = new Bytes(64);
    int count;

    static Vector of(JsonNode layout) {
        if (layout.has("struct")) {
            List<Vector> parts = new ArrayList<>();
            layout.get("struct").forEach(part -> parts.add(of(part)));
            return new Struct(parts);
        }
        if (layout.has("list")) {
            return new ListOf(of(layout.get("list")));
        }
        String leaf = layout.asText();
        return leaf.equals("bytes") ? new Binary() : leaf.equals("bool") ? new Bool() : new Fixed(leaf);
    }

    /** Adds a null, and room for it in whatever is inside. */
    abstract void addNull();

    /** Takes back all but the first values. */
    void truncate(int to) {
        count = to;
        valid.size = (to + 7) / 8;
        clearBitsFrom(valid, to);
    }

    /** Writes the buffers, each after its length. */
    void write(Bytes out) {
        writeBuffer(out, valid);
    }

    void mark(boolean isValid) {
        setBit(valid, count++, isValid);
    }

    static void setBit(Bytes bits, int at, boolean isSet) {
        if (at / 8 == bits.size) {
            bits.add((byte) 0);
        }
        if (isSet) {
            bits.content[at / 8] |= (byte) (1 << (at % 8));
        }
    }

    static void clearBitsFrom(Bytes bits, int to) {
        if (to % 8 != 0) {
            bits.content[to / 8] &= (byte) ((1 << (to % 8)) - 1);
        }
    }

    static void writeBuffer(Bytes out, Bytes buffer) {
        int at = out.skip(4);
        out.putInt(at, buffer.size);
        out.add(buffer.content, buffer.size);
    }

    /** Named parts; after the parts of one value were added, `end` makes those null that were not. */
    static final class Struct extends Vector {
        final List<Vector> parts;

        Struct(List<Vector> parts) {
            this.parts = parts;
        }

        void begin() {
            mark(true);
        }

        void end() {
            for (Vector part : parts) {
                if (part.count < count) {
                    part.addNull();
                }
            }
        }

        <T extends Vector> T part(int at, Class<T> kind) {
            return kind.cast(parts.get(at));
        }

        void addLongs(long first, long second) {
            part(0, Fixed.class).add(first);
            part(1, Fixed.class).add(second);
        }

        @Override
        void addNull() {
            mark(false);
            end();
        }

        @Override
        void truncate(int to) {
            super.truncate(to);
            parts.forEach(part -> part.truncate(to));
        }

        @Override
        void write(Bytes out) {
            super.write(out);
            parts.forEach(part -> part.write(out));
        }
    }

    /** Lists; the elements of one are added to `element` between `begin` and `end`. */
    static final class ListOf extends Vector {
        final Vector element;
        private final Bytes ends = new Bytes(64);

        ListOf(Vector element) {
            this.element = element;
            ends.addLittle(0, 4);
        }

        void begin() {
            mark(true);
        }

        void end() {
            ends.addLittle(element.count, 4);
        }

        @Override
        void addNull() {
            mark(false);
            end();
        }

        @Override
        void truncate(int to) {
            super.truncate(to);
            ends.size = 4 * (to + 1);
            element.truncate((int) ends.little(4 * to, 4));
        }

        @Override
        void write(Bytes out) {
            super.write(out);
            writeBuffer(out, ends);
            element.write(out);
        }
    }

    /** A leaf that takes a serialized value; false: it is none of this type. A value of 0 bytes is null but in `bytes`. */
    abstract static class Leaf extends Vector {
        abstract boolean addValue(ByteBuffer value);
    }

    /** Integers of a fixed width; `date` is stored as days from the epoch, and serialized with the epoch in the middle. */
    static final class Fixed extends Leaf {
        private final int width;
        private final long shift;
        private final Bytes values = new Bytes(64);

        Fixed(String leaf) {
            width = leaf.equals("date") ? 4 : leaf.charAt(1) - '0';
            shift = leaf.equals("date") ? Integer.MIN_VALUE : 0;
        }

        void add(long value) {
            mark(true);
            values.addLittle(value, width);
        }

        @Override
        boolean addValue(ByteBuffer value) {
            int size = value.remaining(), at = value.position();
            if (size != width) {
                addNull();
                return size == 0;
            }
            add((width == 8 ? value.getLong(at) : width == 4 ? value.getInt(at) : width == 2 ? value.getShort(at) : value.get(at)) + shift);
            return true;
        }

        @Override
        void addNull() {
            mark(false);
            values.addLittle(0, width);
        }

        @Override
        void truncate(int to) {
            super.truncate(to);
            values.size = to * width;
        }

        @Override
        void write(Bytes out) {
            super.write(out);
            writeBuffer(out, values);
        }
    }

    /** Truth values, as bits. */
    static final class Bool extends Leaf {
        private final Bytes values = new Bytes(64);

        void add(boolean value) {
            setBit(values, count, value);
            mark(true);
        }

        @Override
        boolean addValue(ByteBuffer value) {
            if (value.remaining() != 1) {
                addNull();
                return value.remaining() == 0;
            }
            add(value.get(value.position()) != 0);
            return true;
        }

        @Override
        void addNull() {
            setBit(values, count, false);
            mark(false);
        }

        @Override
        void truncate(int to) {
            super.truncate(to);
            values.size = (to + 7) / 8;
            clearBitsFrom(values, to);
        }

        @Override
        void write(Bytes out) {
            super.write(out);
            writeBuffer(out, values);
        }
    }

    /** Serialized values as they are. */
    static final class Binary extends Leaf {
        private final Bytes ends = new Bytes(64);
        private final Bytes values = new Bytes(256);

        Binary() {
            ends.addLittle(0, 4);
        }

        @Override
        boolean addValue(ByteBuffer value) {
            mark(true);
            values.add(value);
            ends.addLittle(values.size, 4);
            return true;
        }

        @Override
        void addNull() {
            mark(false);
            ends.addLittle(values.size, 4);
        }

        @Override
        void truncate(int to) {
            super.truncate(to);
            ends.size = 4 * (to + 1);
            values.size = (int) ends.little(4 * to, 4);
        }

        @Override
        void write(Bytes out) {
            super.write(out);
            writeBuffer(out, ends);
            writeBuffer(out, values);
        }
    }
}
