import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.DoubleSupplier;

/** Lets the runner of the corpus talk to {@link RunWriter}, as PROTOCOL.md says. */
public final class Adapter {
    private static final Map<String, Object> HELLO = Map.of(
        "protocol", BigInteger.ONE, "name", "outsider", "language", "Java", "version", "1.0.0",
        "roles", List.of("writer", "canonical-writer"), "profiles", List.of("toy/v1", "metrics/v1", "kaun/v1"),
        "lines", true, "capabilities", List.of("own_kinds", "session"));

    private final Map<String, RunWriter> held = new HashMap<>();
    private double now;

    private Adapter() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (arguments[0].equals("--oneshot")) {
            System.exit(new Adapter().oneShot(arguments, input));
        }
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        output.println(Text.of(Map.of("hello", HELLO)));
        if (arguments[0].equals("--lines")) {
            Adapter adapter = new Adapter();
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                output.println(Text.of(adapter.answer(object(Json.parse(line)))));
            }
        }
    }

    private int oneShot(String[] arguments, BufferedReader input) throws IOException {
        Map<String, Object> request = new HashMap<>(Map.of("role", arguments[1]));
        for (int i = 2; i + 1 < arguments.length; i += 2) {
            request.put(arguments[i].substring(2).replace('-', '_'), arguments[i + 1]);
        }
        request.put("records", input.lines().map(Json::parse).toList());
        Map<String, Object> answer = answer(request);
        if (!"written".equals(answer.get("outcome"))) {
            System.err.println(answer);
            return 1;
        }
        if (answer.get("stream") instanceof String stream) {
            System.out.write(Base64.getDecoder().decode(stream));
            System.out.flush();
        }
        return 0;
    }

    private Map<String, Object> answer(Map<String, Object> request) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", request.get("id"));
        if (!(request.get("role") instanceof String role) || !role.endsWith("writer")) {
            answer.put("error", "this adapter is no " + request.get("role"));
            return answer;
        }
        try {
            if (request.get("release") instanceof String directory) {
                held.remove(directory).release();
            } else if (request.get("directory") instanceof String directory) {
                session(request, directory);
            } else {
                answer.put("stream", Base64.getEncoder().encodeToString(stream(request)));
            }
            answer.put("outcome", "written");
        } catch (IllegalArgumentException | IOException error) {
            answer.put("outcome", "refused");
            answer.put("reason", String.valueOf(error.getMessage()));
        }
        return answer;
    }

    private byte[] stream(Map<String, Object> request) throws IOException {
        Path directory = Files.createTempDirectory("outsider");
        Path stream = directory.resolve("stream");
        try {
            writeAll(request, stream, RunWriter.Exist.FAIL).release();
            return Files.exists(stream) ? Files.readAllBytes(stream) : new byte[0];
        } finally {
            Files.deleteIfExists(stream);
            Files.delete(directory);
        }
    }

    private void session(Map<String, Object> request, String directory) throws IOException {
        Path stream = Path.of(directory, Profile.of((String) request.get("profile")).fileName);
        RunWriter writer = writeAll(request, stream, RunWriter.Exist.valueOf(request.get("exist").toString().toUpperCase(Locale.ROOT)));
        switch ((String) request.get("end")) {
            case "closed" -> writer.close();
            case "errored" -> writer.end("errored", (String) request.get("error"));
            case "interrupted" -> writer.end("interrupted", null);
            case "held" -> held.put(directory, writer);
            default -> writer.release();
        }
    }

    private RunWriter writeAll(Map<String, Object> request, Path stream, RunWriter.Exist exist) throws IOException {
        List<Map<String, Object>> records = new ArrayList<>();
        for (Object record : (List<?>) request.get("records")) {
            records.add(object(untagged(record)));
        }
        now = records.isEmpty() ? 0 : clockOf(records.get(0));
        long opened = System.nanoTime();
        boolean hasTimes = records.stream().anyMatch(record -> record.containsKey("t"));
        DoubleSupplier clock = hasTimes ? () -> now : () -> (System.nanoTime() - opened) / 1e9;
        RunWriter writer = RunWriter.open(stream, Profile.of((String) request.get("profile")), exist, clock);
        try {
            for (Map<String, Object> record : records) {
                now = clockOf(record);
                if (!writer.write(record)) {
                    throw new IOException(stream + " cannot be written");
                }
            }
        } catch (IllegalArgumentException | IOException error) {
            writer.release();
            throw error;
        }
        return writer;
    }

    private double clockOf(Map<String, Object> record) {
        return record.get("t") instanceof Number t ? t.doubleValue() : now;
    }

    private static Object untagged(Object value) {
        if (value instanceof List<?> items) {
            List<Object> untagged = new ArrayList<>();
            items.forEach(item -> untagged.add(untagged(item)));
            return untagged;
        }
        if (!(value instanceof Map<?, ?> members)) {
            return value;
        }
        if (members.size() == 1) {
            Map.Entry<?, ?> only = members.entrySet().iterator().next();
            switch ((String) only.getKey()) {
                case "int" -> {
                    return integer((String) only.getValue());
                }
                case "float", "f32" -> {
                    return number((String) only.getValue());
                }
                case "object" -> members = (Map<?, ?>) only.getValue();
                default -> { }
            }
        }
        Map<String, Object> untagged = new LinkedHashMap<>();
        members.forEach((key, member) -> untagged.put((String) key, untagged(member)));
        return untagged;
    }

    private static BigInteger integer(String digits) {
        if (!digits.matches("-?(0|[1-9][0-9]*)")) {
            throw new IllegalArgumentException(digits + " is not an integer");
        }
        return new BigInteger(digits);
    }

    private static double number(String text) {
        return switch (text) {
            case "nan" -> Double.NaN;
            case "inf" -> Double.POSITIVE_INFINITY;
            case "-inf" -> Double.NEGATIVE_INFINITY;
            default -> Double.parseDouble(text);
        };
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }
}
