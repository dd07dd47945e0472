import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** A stream that is there already: its records, where its fragment begins, and whose it is. */
final class Existing {
    final List<Map<String, Object>> records = new ArrayList<>();
    final byte[] fragment;
    final int committed;
    private boolean hasGap;

    Existing(byte[] bytes) {
        int start = 0;
        for (int at = 0; at < bytes.length; at++) {
            if (bytes[at] == '\n') {
                takeLine(Arrays.copyOfRange(bytes, start, at));
                start = at + 1;
            }
        }
        committed = start;
        fragment = Arrays.copyOfRange(bytes, start, bytes.length);
    }

    boolean isDamaged() {
        return hasGap;
    }

    boolean isEmpty() {
        return committed == 0 && fragment.length == 0;
    }

    /** The profile that the stream follows, null for none: see the chapter Model. */
    Profile profile(Path stream) {
        boolean hasManifest = hasManifest(stream.resolveSibling("run.json"));
        if (records.isEmpty()) {
            boolean isMetrics = stream.endsWith(Profile.METRICS.fileName);
            boolean isForeign = hasGap && !stream.endsWith(Profile.TOY.fileName);
            return isMetrics ? Profile.METRICS : hasManifest ? Profile.KAUN : isForeign ? null : Profile.TOY;
        }
        Map<String, Object> first = records.get(0);
        if ("run_start".equals(first.get("kind")) || first.get("kind") instanceof String && first.get("t") instanceof Number) {
            return Profile.TOY;
        } else if ("scalar".equals(first.get("type"))) {
            return Profile.KAUN;
        } else if (first.containsKey("step") && first.containsKey("wall_time_ms")) {
            return Profile.METRICS;
        }
        return hasManifest ? Profile.KAUN : null;
    }

    private void takeLine(byte[] line) {
        String bytes = new String(line, StandardCharsets.ISO_8859_1);
        if (line.length <= Json.MAX_LINE_BYTES && bytes.chars().allMatch(c -> c == ' ' || c == '\t' || c == '\r')) {
            return;
        }
        try {
            records.add(Json.parseLine(line));
        } catch (IllegalArgumentException error) {
            hasGap = true;
        }
    }

    private static boolean hasManifest(Path file) {
        try {
            Map<String, Object> manifest = Json.parseLine(Files.readAllBytes(file));
            return manifest.containsKey("run_id") && !manifest.containsKey("kind");
        } catch (IOException | IllegalArgumentException error) {
            return false;
        }
    }
}
