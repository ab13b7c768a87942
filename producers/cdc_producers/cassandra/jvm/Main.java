package cdcviews;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.utils.FBUtilities;

/**
 * Reads commit log segments as it is told to: one command a line on standard input (JSON), frames on standard output.
 *
 * <p>Commands: {"do":"schema","wanted":[ids],"known":[ids],"plans":[…],"definitions":[{"name","cql":[…]}]} and
 * {"do":"read","path","segment","from","limit","passes_over","as_lines"}. The end of standard input ends it.
 */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Main() {}

    /** The one argument is the node's name in events. */
    public static void main(String[] arguments) {
        int code = 0;
        try {
            run(arguments[0]);
        } catch (Throwable error) {
            System.err.println("ended by " + error);
            code = 1;
        }
        Runtime.getRuntime().halt(code); // Cassandra's classes leave threads behind
    }

    private static void run(String node) throws Exception {
        Frames frames = new Frames(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16));
        System.setOut(System.err); // what a library prints must not get between the frames
        DatabaseDescriptor.toolInitialization(false);
        Catalog catalog = new Catalog();
        Lines lines = new Lines(node);
        frames.say('R', JSON.writeValueAsString(Map.of("version", FBUtilities.getReleaseVersionString())));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            if (command.get("do").asText().equals("schema")) {
                frames.say('R', JSON.writeValueAsString(Map.of("failed", catalog.take(command))));
            } else {
                read(command, catalog, lines, frames);
            }
        }
    }

    private static void read(JsonNode command, Catalog catalog, Lines lines, Frames frames) throws Exception {
        Segment.Range range =
                new Segment.Range(
                        command.get("path").asText(),
                        command.get("segment").asLong(),
                        command.get("from").asInt(),
                        command.get("limit").asInt(),
                        command.get("passes_over").asBoolean(),
                        command.get("as_lines").asBoolean());
        Segment segment = new Segment(catalog, lines, frames, range);
        Segment.Halt halt = segment.read(range);
        Map<String, Object> told = new TreeMap<>();
        if (halt != null) {
            told.putAll(halt.facts);
        }
        told.put("position", segment.position());
        told.put("mutations", segment.mutations());
        frames.say(halt == null ? 'D' : 'S', JSON.writeValueAsString(told));
    }

    static void tellBad(Frames frames, String reason) throws IOException {
        frames.say('B', JSON.writeValueAsString(Map.of("reason", reason)));
    }
}
