// Lets the fault runner drive the Java emitter: see PROTOCOL.md, durable writers.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

public final class JavaWriter {
    private static ToyspecEmitter run;

    public static void main(String[] arguments) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) System.out.println(answer(line));
    }

    private static String answer(String line) throws IOException {
        String[] words = line.split(" ", 3);
        String rest = line.substring(Math.min(line.length(), words[0].length() + 1));
        switch (words[0]) {
            case "append": case "entry": case "bundle": return "untestable the emitter writes toy/v1 alone, without a RunBundle";
            case "fork": return "untestable Java programs do not fork";
            case "open": {
                var next = new ToyspecEmitter(rest.substring(words[1].length() + 1), ToyspecEmitter.Exist.valueOf(words[1].toUpperCase()), "demo");
                if (next.error() != null) return "failed " + next.error();
                run = next;
                return "ok";
            }
            case "start": return said(run.start(Map.of()));
            case "resume": return said(run.resume(Long.parseLong(rest)));
            case "step": return said(run.step(Long.parseLong(rest), Map.of("loss", 0.5)));
            case "note": return said(run.write(Map.of("kind", "note", "step", Long.parseLong(words[1]), "text", "x".repeat(Integer.parseInt(words[2])))));
            case "end": return said(run.end());
            case "dropped": return "ok " + run.dropped();
            case "read": Files.readAllBytes(Path.of(rest)); return "ok";
            case "value": return value(rest);
            default: if (run != null) run.close(); return "ok";
        }
    }

    private static String value(String name) {
        List<Object> nested = new ArrayList<>();
        for (int level = 0; level < 100; level++) nested = new ArrayList<>(List.of(nested));
        switch (name) {
            case "nan": return said(run.step(1000, Map.of("loss", Double.NaN)));
            case "long-integer": return said(run.write(Map.of("kind", "step", "step", BigInteger.TEN.pow(400))));
            case "bad-utf8": return said(run.write(Map.of("kind", "note", "text", "\ud800")));
            case "twin-keys": return said(run.write(Map.of("kind", "mine", "m", Map.of("\ud800", 1, "\ud801", 2))));
            case "deep": return said(run.write(Map.of("kind", "mine", "m", nested)));
            case "long": return said(run.write(Map.of("kind", "note", "text", "x".repeat(17_000_000))));
            case "no-kind": return said(run.write(Map.of("m", 1)));
            default: return "untestable Java has no such value";
        }
    }

    private static String said(boolean isWritten) {
        return isWritten ? "ok" : ("failed " + run.error()).replace('\n', ' ');
    }
}
