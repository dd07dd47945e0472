// Lets `toyspec conform` ask your emitter; the protocol is conformance/PROTOCOL.md. Edit HELLO and `write`.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public final class Adapter {
    private static final String HELLO = "{\"hello\": {\"protocol\": 1, \"name\": \"my-emitter\", \"language\": \"Java\", \"version\": \"0.1\", "
            + "\"roles\": [\"writer\"], \"profiles\": [\"toy/v1\"], \"revisions\": [\"1.3\"], \"lines\": true, \"capabilities\": []}}";

    /** Throw this if your emitter refuses a record; the text says why. */
    static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;

        Refused(String why) { super(why); }
    }

    /**
     * Returns the text that your emitter writes for the records. Their values are Map, List, String, Boolean, null, BigInteger
     * and Double, NaN and infinities among them. The `t` of a record is the time on the clock of the run.
     */
    static String write(List<Map<String, Object>> records) {
        throw new UnsupportedOperationException("still to do: call your emitter in `write` of Adapter.java");
    }

    /** A value with the numbers that its tags stand for. */
    private static Object untagged(Object value) {
        if (value instanceof List<?> list) {
            List<Object> items = new ArrayList<>();
            for (Object item : list) items.add(untagged(item));
            return items;
        }
        if (!(value instanceof Map<?, ?> map)) return value;
        Map<?, ?> members = map;
        if (map.size() == 1) {
            var only = map.entrySet().iterator().next();
            if (only.getKey().equals("int")) return new BigInteger((String) only.getValue());
            if (only.getKey().equals("float") || only.getKey().equals("f32")) return number((String) only.getValue());
            if (only.getKey().equals("object")) members = (Map<?, ?>) only.getValue();
        }
        Map<String, Object> found = new LinkedHashMap<>();
        for (var member : members.entrySet()) found.put((String) member.getKey(), untagged(member.getValue()));
        return found;
    }

    private static Double number(String text) {
        return switch (text) {
            case "nan" -> Double.NaN;
            case "inf" -> Double.POSITIVE_INFINITY;
            case "-inf" -> Double.NEGATIVE_INFINITY;
            default -> Double.valueOf(text);
        };
    }

    @SuppressWarnings("unchecked")
    private static String written(List<?> records) {
        List<Map<String, Object>> plain = new ArrayList<>();
        for (Object record : records) plain.add((Map<String, Object>) untagged(record));
        return write(plain);
    }

    public static void main(String[] arguments) throws IOException {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        if (arguments[0].equals("--oneshot")) {
            List<Object> records = new ArrayList<>();
            for (String line; (line = input.readLine()) != null; ) records.add(new Json(line).value());
            int status = 0;
            try {
                output.print(written(records));
            } catch (RuntimeException error) {
                System.err.println(error);
                status = error instanceof Refused ? 1 : 2;
            }
            output.flush();
            System.exit(status);
        }
        output.println(HELLO);
        if (!arguments[0].equals("--lines")) return;
        for (String line; (line = input.readLine()) != null; ) {
            var request = (Map<?, ?>) new Json(line).value();
            String found;
            try {
                byte[] stream = written((List<?>) request.get("records")).getBytes(StandardCharsets.UTF_8);
                found = "\"outcome\": \"written\", \"stream\": \"" + Base64.getEncoder().encodeToString(stream) + "\"";
            } catch (Refused error) {
                found = "\"outcome\": \"refused\", \"reason\": " + quoted(error.getMessage());
            } catch (RuntimeException error) {
                found = "\"error\": " + quoted(error.toString());
            }
            output.println("{\"id\": " + request.get("id") + ", " + found + "}");
        }
    }

    private static String quoted(String text) {
        var found = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') found.append('\\');
            found.append(letter < ' ' ? String.format("\\u%04x", (int) letter) : letter);
        }
        return found.append('"').toString();
    }

    /** Reads what the runner sends, which is JSON without errors. */
    private static final class Json {
        private final String text;
        private int at;

        Json(String text) { this.text = text; }

        Object value() {
            switch (next()) {
                case '{': {
                    Map<String, Object> members = new LinkedHashMap<>();
                    for (at++; next() != '}'; ) {
                        String key = string();
                        next();
                        at++;
                        members.put(key, value());
                        if (next() == ',') at++;
                    }
                    at++;
                    return members;
                }
                case '[': {
                    List<Object> items = new ArrayList<>();
                    for (at++; next() != ']'; ) {
                        items.add(value());
                        if (next() == ',') at++;
                    }
                    at++;
                    return items;
                }
                case '"': return string();
                case 't': at += 4; return true;
                case 'f': at += 5; return false;
                case 'n': at += 4; return null;
                default: {
                    int start = at;
                    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) at++;
                    return new BigInteger(text.substring(start, at));
                }
            }
        }

        private char next() {
            while (text.charAt(at) <= ' ') at++;
            return text.charAt(at);
        }

        private String string() {
            var found = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) {
                char letter = text.charAt(at);
                if (letter == '\\') {
                    letter = text.charAt(++at);
                    int place = "bfnrt".indexOf(letter);
                    if (place >= 0) letter = "\b\f\n\r\t".charAt(place);
                    else if (letter == 'u') letter = (char) Integer.parseInt(text.substring(at + 1, (at += 4) + 1), 16);
                }
                found.append(letter);
            }
            at++;
            return found.toString();
        }
    }
}
