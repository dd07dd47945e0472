import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.DoubleSupplier;

/**
 * Writes the stream of one run. Opening and misuse fail with an exception; a record that cannot be written never does: the
 * failure is reported once, and nothing more is written.
 */
final class RunWriter implements AutoCloseable {
    /** What to do with a stream that is there. */
    enum Exist { REPLACE, FAIL, RESUME, APPEND }

    private final Path path;
    private final Profile profile;
    private final DoubleSupplier clock;
    private final Timeline timeline = new Timeline();
    private Exist exist;
    private StreamFile file;
    private Existing existing;
    private boolean hasStarted;
    private boolean isClosed;

    private RunWriter(Path path, Profile profile, DoubleSupplier clock) {
        this.path = path;
        this.profile = profile;
        this.clock = clock;
    }

    /** The clock gives the seconds since the start of the run, or of this process where the run is resumed. */
    static RunWriter open(Path path, Profile profile, Exist exist, DoubleSupplier clock) throws IOException {
        RunWriter writer = new RunWriter(path, profile, clock);
        writer.file = StreamFile.open(path);
        try {
            writer.lookAtExisting(exist);
        } catch (IOException | RuntimeException error) {
            writer.release();
            throw error;
        }
        return writer;
    }

    private void lookAtExisting(Exist exist) throws IOException {
        this.exist = exist;
        if (file == null) {
            return;
        }
        existing = new Existing(file.content());
        if (exist == Exist.FAIL) {
            throw new IOException(path + " exists");
        }
        if (exist == Exist.REPLACE) {
            return;
        }
        boolean isForeign = !existing.records.isEmpty() && existing.profile(path) != profile; // without a record, it is nobody's
        if (isForeign || existing.isDamaged()) {
            throw new IOException(path + " is damaged or not a stream of " + profile.id + ": it has to be looked at first");
        }
        if (profile == Profile.TOY) {
            existing.records.forEach(timeline::note);
            timeline.resume(clock.getAsDouble());
            if (timeline.hasEnded() || exist == Exist.APPEND && timeline.hasRecords()) {
                throw new IOException(path + " holds another run, or one that has ended");
            }
        }
    }

    /** True when the record is in the stream. Throws for a record that is wrong. */
    boolean write(Map<String, Object> given) {
        if (isClosed) {
            return false;
        }
        Map<String, Object> record = Shape.of(withAlwaysWritten(given), profile.schemaOf(given));
        if (profile == Profile.TOY) {
            record = timeline.placed(record);
        }
        byte[] line = (Text.of(record) + "\n").getBytes(StandardCharsets.UTF_8);
        if (line.length - 1 > Json.MAX_LINE_BYTES) {
            throw new IllegalArgumentException("the record is longer than " + Json.MAX_LINE_BYTES + " bytes");
        }
        try {
            append(line);
            timeline.note(record);
            if ("run_start".equals(record.get("kind")) || "run_end".equals(record.get("kind"))) {
                file.sync();
            }
            return true;
        } catch (IOException error) {
            System.err.println(path + ": " + error.getMessage() + ". Nothing more is logged; the program goes on.");
            release();
            return false;
        }
    }

    /** Writes the run_end of a toy/v1 run that has none yet, and closes the stream. */
    void end(String reason, String error) {
        if (profile == Profile.TOY && hasStarted && !timeline.hasEnded()) {
            Map<String, Object> end = timeline.end(reason, error, clock.getAsDouble());
            end.put("ended_at", Instant.ofEpochSecond(Instant.now().getEpochSecond()).toString());
            write(end);
        }
        release();
    }

    /** Closes the stream as a killed process does. */
    void release() {
        isClosed = true;
        try {
            if (file != null) {
                file.close();
            }
        } catch (IOException error) {
            System.err.println(path + ": " + error.getMessage());
        }
    }

    @Override
    public void close() {
        end("completed", null);
    }

    /** The keys of which the pages of the kinds say "MUST write in every …". */
    private Map<String, Object> withAlwaysWritten(Map<String, Object> given) {
        Map<String, Object> record = new LinkedHashMap<>(given);
        if (profile == Profile.TOY) {
            record.putIfAbsent("t", clock.getAsDouble());
        }
        if (profile == Profile.TOY && "run_start".equals(given.get("kind"))) {
            record.putIfAbsent("schema", profile.id);
        } else if (profile == Profile.METRICS) {
            record.putIfAbsent("extra", Map.of());
        } else if (profile == Profile.KAUN && "scalar".equals(given.get("type"))) {
            record.putIfAbsent("wall_time", System.currentTimeMillis() / 1000.0);
        }
        return record;
    }

    private void append(byte[] line) throws IOException {
        if (hasStarted) {
            file.append(line);
            return;
        }
        Undo undo = new Undo();
        try {
            prepare(undo);
            file.append(line);
        } catch (IOException error) {
            undo.run();
            throw error;
        }
        hasStarted = true;
    }

    private void prepare(Undo undo) throws IOException {
        StreamFile replaced = null;
        if (existing != null && exist == Exist.REPLACE && !existing.isEmpty()) {
            SideFiles.keepReplaced(path, undo);
            replaced = file;
            file = null;
        } else if (existing != null && existing.fragment.length > 0) {
            SideFiles.keepFragment(file, existing, undo);
        }
        if (file == null) {
            createDirectories(path.toAbsolutePath().getParent(), undo);
            file = StreamFile.create(path);
            undo.add(() -> Files.delete(path));
        }
        if (replaced != null) {
            replaced.close();
        }
    }

    private static void createDirectories(Path directory, Undo undo) throws IOException {
        if (!Files.exists(directory)) {
            createDirectories(directory.getParent(), undo);
            Files.createDirectory(directory);
            undo.add(() -> Files.delete(directory));
        }
    }
}
