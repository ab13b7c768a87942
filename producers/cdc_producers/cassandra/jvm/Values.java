package cdcviews;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.AsciiType;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.ReversedType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.transport.ProtocolVersion;

/**
 * Values as JSON text, as SELECT JSON prints them.
 *
 * <p>The text is Cassandra's own and is passed on as it is: through a parsed number -0.0 or a decimal's scale would be
 * lost.
 */
final class Values {
    private final Map<AbstractType<?>, AbstractType<?>> plain = new IdentityHashMap<>();
    private final Map<String, byte[]> quoted = new HashMap<>();

    void write(Bytes out, AbstractType<?> declared, ByteBuffer value) {
        AbstractType<?> type = plain.computeIfAbsent(declared, Values::unreversed);
        int size = value.remaining();
        if (type == Int32Type.instance && size == 4) {
            out.add(value.getInt(value.position()));
        } else if (type == LongType.instance && size == 8) {
            out.add(value.getLong(value.position()));
        } else if (type == BytesType.instance) {
            out.addHex(value);
            // a blob's text begins with 0x: the quote that opens stays, the digits move
            insertPrefix(out, size);
        } else if (size == 0) {
            out.add("\"\"");
        } else if ((type == UTF8Type.instance || type == AsciiType.instance) && isPlain(value)) {
            out.add('"').add(bytes(value)).add('"');
        } else {
            out.add(type.toJSONString(value.duplicate(), ProtocolVersion.CURRENT));
        }
    }

    /** Returns a name in quotes. */
    byte[] name(String name) {
        return quoted.computeIfAbsent(name, n -> quote(n).getBytes(StandardCharsets.UTF_8));
    }

    static String quote(String text) {
        return "\"" + new String(JsonStringEncoder.getInstance().quoteAsString(text)) + "\"";
    }

    private static AbstractType<?> unreversed(AbstractType<?> type) {
        return type instanceof ReversedType ? ((ReversedType<?>) type).baseType : type;
    }

    private static void insertPrefix(Bytes out, int size) {
        out.add("0x");
        int first = out.size - 2 - 2 * size - 1;
        System.arraycopy(out.content, first, out.content, first + 2, 2 * size + 1);
        out.content[first] = '0';
        out.content[first + 1] = 'x';
    }

    private static boolean isPlain(ByteBuffer text) {
        for (int i = text.position(); i < text.limit(); i++) {
            byte one = text.get(i);
            if (one < 0x20 || one == '"' || one == '\\') {
                return false;
            }
        }
        return true;
    }

    private static byte[] bytes(ByteBuffer value) {
        byte[] found = new byte[value.remaining()];
        value.duplicate().get(found);
        return found;
    }
}
