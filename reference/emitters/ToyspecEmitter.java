import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CharsetEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Writes training logs of toy/v1, in one file to copy into a project. Java 17 and nothing else.
 *
 * <pre>
 * try (var run = new ToyspecEmitter("runs/demo")) {
 *     run.start(Map.of("config", Map.of("lr", 3e-4)));
 *     for (long step = 1; step &lt;= 100; step++) run.step(step, Map.of("loss", 2.5));
 *     run.end();
 * }
 * </pre>
 *
 * A call returns true when its record is in the file, whatever happens to the process afterwards. It throws nothing into the
 * training: it returns false, error() says why, and the first failure is printed on standard error. No call waits for a lock
 * or a thread. Java has record locks alone: writers that take only flock are not noticed, and a program that opens its own
 * stream and closes it loses the lock. Interrupting a thread inside a call closes the stream. SPDX-License-Identifier: Apache-2.0
 */
public final class ToyspecEmitter implements AutoCloseable {
    /** What happens to a stream that is there: REPLACE keeps it as events.jsonl.prev. */
    public enum Exist { REPLACE, FAIL, RESUME }

    private static final int MAX_LINE_BYTES = 16_777_216, MAX_DEPTH = 64;
    private static final Set<String> STEP_KEYS = Set.of(
        "loss", "ppl", "lr", "grad_norm", "tokens", "compute_us", "wall_us", "token_id", "logprob", "mtp_loss");
    /** Java gives the text of an error alone; in another language of the system every failure closes the stream. */
    private static final List<String> TEMPORARY = List.of(
        "No space left", "quota exceeded", "File too large", "temporarily unavailable", "Interrupted system call", "take no byte");
    private static final boolean IS_WINDOWS = System.getProperty("os.name").startsWith("Windows");
    /** The streams that this process holds: closing a second channel of one would release its lock. */
    private static final Set<Path> HELD = new HashSet<>();

    private final Path directory, path;
    private final String runId;
    private final Exist exist;
    private String error;
    private long dropped, unsaid, lastStep, looked;
    private double lastT;
    private long origin = System.nanoTime();
    private FileChannel file, reader;
    private Object key;
    private byte[] fragment = {};
    private boolean isOpen, isBegun, wasReported;

    /** Opens a run that replaces what is in the directory; its id is the name of the directory. */
    public ToyspecEmitter(String directory) {
        this(directory, Exist.REPLACE, null);
    }

    /** Opens the stream events.jsonl in the directory; the id is the name of the directory if it is null. */
    public ToyspecEmitter(String directory, Exist exist, String runId) {
        this.directory = Path.of(directory).toAbsolutePath().normalize();
        this.path = this.directory.resolve("events.jsonl");
        this.runId = runId == null ? this.directory.getFileName().toString() : runId;
        this.exist = exist;
        perform(this::open);
    }

    /** Returns why the last call that failed did, or null. */
    public String error() { return error; }

    /** Returns the number of records that are not in the file, since it could not be written. */
    public long dropped() { return dropped; }

    /** Returns the last step in the file. */
    public long lastStep() { return lastStep; }

    /** Writes run_start with metadata such as config and model; call it before computing. */
    public boolean start(Map<String, ?> metadata) {
        return perform(() -> {
            var record = record("run_start", "schema", "toy/v1", "t", t(), "run_id", runId,
                "started_at", Instant.now().truncatedTo(ChronoUnit.SECONDS).toString());
            record.putAll(metadata);
            begin(record, true);
        });
    }

    /** Goes on after the last step in the file; without a record to resume, starts the run. */
    public boolean resume() { return resume(lastStep); }

    /** Goes on after a step; without a record to resume, starts the run. */
    public boolean resume(long fromStep) {
        if (isOpen && file == null) return start(Map.of());
        return perform(() -> begin(record("run_resume", "t", t(), "from_step", fromStep), false));
    }

    /** Writes one step of the training; names that the format does not know go into extra. */
    public boolean step(long step, Map<String, ? extends Number> values) {
        return perform(() -> {
            var record = record("step", "phase", "train", "t", t(), "step", step);
            Map<String, Object> extra = new LinkedHashMap<>(), nonfinite = new LinkedHashMap<>();
            values.forEach((name, value) -> {
                boolean isKnown = STEP_KEYS.contains(name);
                (isKnown ? record : extra).put(name, finite(value, isKnown ? name : "extra/" + name, nonfinite));
            });
            if (!extra.isEmpty()) record.put("extra", extra);
            if (!nonfinite.isEmpty()) record.put("nonfinite", nonfinite);
            append(record, false);
            lastStep = step;
        });
    }

    /** Writes values by name, such as run.log(Map.of("val/acc", 0.5), 5L), at a step or, for null, without one. */
    public boolean log(Map<String, ? extends Number> values, Long step) {
        return perform(() -> {
            var record = record("scalars", "t", t());
            if (step != null) record.put("step", step);
            Map<String, Object> kept = new LinkedHashMap<>(), nonfinite = new LinkedHashMap<>();
            values.forEach((name, value) -> kept.put(name, finite(value, name, nonfinite)));
            record.put("values", kept);
            if (!nonfinite.isEmpty()) record.put("nonfinite", nonfinite);
            append(record, false);
        });
    }

    /** Writes a note. */
    public boolean note(String text) {
        return perform(() -> append(record("note", "t", t(), "text", text), false));
    }

    /** Writes any record of toy/v1, of maps, lists, texts, numbers, booleans and null; t is filled in. */
    public boolean write(Map<String, ?> members) {
        return perform(() -> {
            Map<String, Object> record = new LinkedHashMap<>();
            record.put("t", t());
            record.putAll(members);
            append(record, false);
        });
    }

    /** Writes run_end with the reason completed, and closes the stream. */
    public boolean end() { return end("completed", Map.of()); }

    /** Writes run_end and closes the stream. The reason is completed, interrupted, aborted or errored. */
    public boolean end(String reason, Map<String, ?> members) {
        boolean done = perform(() -> {
            var record = record("run_end", "t", t(), "reason", reason);
            if (lastStep > 0) record.put("final_step", lastStep);
            record.putAll(members);
            append(record, true);
        });
        close();
        return done;
    }

    /** Closes the stream and releases its lock, without a record. */
    @Override public void close() {
        closeQuietly(file);
        closeQuietly(reader);
        if (isOpen) synchronized (HELD) { HELD.remove(path); }
        file = reader = null;
        isOpen = false;
    }

    private interface Action { void run() throws IOException; }

    /** Why a record or a stream is refused. */
    private static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;
        Refused(String why) { super(why); }
    }

    private boolean perform(Action action) {
        // An interrupted thread would close the channel; it is interrupted again afterwards.
        boolean wasInterrupted = Thread.interrupted();
        try {
            action.run();
            return true;
        } catch (IOException | RuntimeException | StackOverflowError failure) {
            String cause = failure.getMessage() == null ? failure.toString() : failure.getMessage();
            error = path + ": " + cause;
            if (!wasReported) System.err.println("toyspec: " + error + "; this call wrote nothing");
            wasReported = true;
            return false;
        } finally {
            if (wasInterrupted) Thread.currentThread().interrupt();
        }
    }

    private static Map<String, Object> record(String kind, Object... members) {
        Map<String, Object> record = new LinkedHashMap<>();
        record.put("kind", kind);
        for (int at = 0; at < members.length; at += 2) record.put((String) members[at], members[at + 1]);
        return record;
    }

    private double t() {
        lastT = Math.max(lastT, Math.round((System.nanoTime() - origin) / 1e3) / 1e6);
        return lastT;
    }

    private static Object finite(Number value, String name, Map<String, Object> nonfinite) {
        if (value == null || Double.isFinite(value.doubleValue())) return value;
        nonfinite.put(name, Double.isNaN(value.doubleValue()) ? "nan" : value.doubleValue() > 0 ? "inf" : "-inf");
        return null;
    }

    /** Locks the stream that is there, and reads what a resumption needs; changes nothing. */
    private void open() throws IOException {
        Files.createDirectories(directory);
        synchronized (HELD) {
            if (HELD.contains(path)) throw new Refused("another writer of this process holds this stream");
            if (Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
                if (exist == Exist.FAIL) throw new Refused("there is a stream already; resume it, replace it, or use another directory");
                openChannels();
                try {
                    if (exist == Exist.RESUME) scan();
                } catch (IOException | RuntimeException | StackOverflowError failure) {
                    close();
                    throw failure;
                }
            }
            isOpen = true;
            HELD.add(path);
        }
    }

    /** Opens and locks the file that is at the path; the channel for reading stays open, since closing it releases the lock. */
    private void openChannels() throws IOException {
        for (;;) {
            Object before = keyOf(path);
            FileChannel in = FileChannel.open(path, StandardOpenOption.READ), out = null;
            boolean isTaken = false;
            try {
                out = FileChannel.open(path, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
                if (!lock(out)) throw new Refused("another writer holds this stream (it is locked)");
                // Between opening and locking, another writer may have moved the file.
                isTaken = before != null && before.equals(keyOf(path));
            } finally {
                if (!isTaken) {
                    closeQuietly(in);
                    closeQuietly(out);
                }
            }
            if (isTaken) {
                reader = in;
                file = out;
                key = before;
                return;
            }
        }
    }

    private static boolean lock(FileChannel channel) {
        try {
            return channel.tryLock() != null;
        } catch (OverlappingFileLockException held) {
            return false;
        } catch (IOException noLocksHere) {
            return true;
        }
    }

    /** Returns what tells the regular file at the path from others; throws for a directory, FIFO or device. */
    private static Object keyOf(Path path) throws IOException {
        var found = Files.readAttributes(path, BasicFileAttributes.class);
        if (!found.isRegularFile()) throw new Refused("this is not a regular file");
        return found.fileKey() == null ? path : found.fileKey();
    }

    /** Takes in the last step and time of the stream; throws unless it is toy/v1 and not damaged. */
    private void scan() throws IOException {
        byte[] content = content();
        int begin = 0;
        boolean isFirst = true;
        for (int at = 0; at < content.length; at++) {
            if (content[at] != '\n') continue;
            var decoder = StandardCharsets.UTF_8.newDecoder();
            String line;
            try {
                line = decoder.decode(ByteBuffer.wrap(content, begin, at - begin)).toString();
            } catch (CharacterCodingException damaged) {
                throw new Refused("a line is damaged; `toyspec check` says where");
            }
            begin = at + 1;
            if (line.isBlank()) continue;
            Map<?, ?> record = new Parser(line).object();
            Object kind = record.get("kind"), schema = record.get("schema");
            if (isFirst && (!"run_start".equals(kind) || schema != null && !"toy/v1".equals(schema)))
                throw new Refused("the stream is not of toy/v1");
            isFirst = false;
            if ("step".equals(kind) && record.get("step") instanceof Double step) lastStep = step.longValue();
            if (record.get("t") instanceof Double seconds) lastT = Math.max(lastT, seconds);
        }
        fragment = Arrays.copyOfRange(content, begin, content.length);
        origin = System.nanoTime() - Math.round(lastT * 1e9);
    }

    private byte[] content() throws IOException {
        var bytes = ByteBuffer.allocate((int) Math.min(reader.size(), Integer.MAX_VALUE - 8));
        while (bytes.hasRemaining() && reader.read(bytes, bytes.position()) > 0);
        return Arrays.copyOf(bytes.array(), bytes.position());
    }

    /** Writes the first record of this process; if that fails, every file is as it was. */
    private void begin(Map<String, Object> first, boolean isNew) throws IOException {
        if (!isOpen || isBegun) throw new Refused(isOpen ? "the run has begun" : "the stream is not open");
        byte[] line = line(first);
        Deque<Action> undo = new ArrayDeque<>();
        FileChannel oldFile = file, oldReader = reader;
        Object oldKey = key;
        try {
            boolean isReplaced = isNew && file != null && file.size() > 0 && exist == Exist.REPLACE;
            if (isReplaced) {
                undo.push(() -> { file = oldFile; reader = oldReader; key = oldKey; });
                keep(path, undo);
            }
            if (isReplaced || file == null) {
                Files.createDirectories(directory);
                Files.createFile(path);
                undo.push(() -> Files.delete(path));
                file = null;
                openChannels();
                undo.push(() -> { closeQuietly(file); closeQuietly(reader); file = reader = null; });
            }
            if (fragment.length > 0) moveFragment();
            append(line, true);
        } catch (IOException | RuntimeException failure) {
            while (!undo.isEmpty()) undo.pop().run();
            throw failure;
        }
        isBegun = true;
        fragment = new byte[0];
        if (oldFile == null || file == oldFile) return;
        closeQuietly(oldFile);
        closeQuietly(oldReader);
        moveRanks();
    }

    /** Keeps the streams of the other ranks of the run that was replaced; one that a writer holds is of the new run. */
    private void moveRanks() {
        String[] names = directory.toFile().list();
        for (String name : names == null ? new String[0] : names) {
            if (!name.matches("events\\.rank-[1-9][0-9]{0,8}\\.jsonl")) continue;
            Path rank = directory.resolve(name);
            try {
                Object before = keyOf(rank);
                try (var channel = FileChannel.open(rank, StandardOpenOption.WRITE)) {
                    if (channel.size() > 0 && lock(channel) && before.equals(keyOf(rank))) keep(rank, new ArrayDeque<>());
                }
            } catch (IOException | Refused failure) {
                // It stays where it is.
            }
        }
    }

    /** Copies the bytes after the last LF to a side file, then cuts them off. */
    private void moveFragment() throws IOException {
        long offset = file.size() - fragment.length;
        Path side = free(path + ".torn-" + offset, 2, path + ".torn-" + offset);
        try {
            try (var copy = FileChannel.open(side, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW)) {
                writeAll(copy, fragment);
                copy.force(true);
            }
            syncDirectory();
            file.truncate(offset);
        } catch (IOException | RuntimeException failure) {
            Files.deleteIfExists(side);
            throw failure;
        }
    }

    private void append(Map<String, Object> record, boolean sync) throws IOException {
        if (!isBegun || file == null) throw new Refused("the run is not open; call start() or resume() first");
        byte[] line = line(record);
        followPath();
        try {
            append(line, sync);
        } catch (IOException failure) {
            dropped++;
            unsaid++;
            throw failure;
        }
        if (unsaid == 0 || file == null) return;
        try {
            append(line(record("note", "t", t(), "text", unsaid + " records were dropped: they could not be written",
                "topic", "left-out", "dropped", Map.of("record", unsaid))), false);
            unsaid = 0;
        } catch (IOException failure) {
            // The next record that fits tries again.
        }
    }

    /** Writes a line whole, or takes back what was written of it; after a failure that may last, closes the stream. */
    private void append(byte[] line, boolean sync) throws IOException {
        long begin = file.size();
        try {
            writeAll(file, line);
        } catch (IOException failure) {
            boolean isSafe = takenBack(begin, line);
            boolean isTemporary = TEMPORARY.stream().anyMatch(text -> String.valueOf(failure.getMessage()).contains(text));
            if (isBegun && !(isSafe && isTemporary)) close();
            throw failure;
        }
        if (!sync) return;
        file.force(true);
        syncDirectory();
    }

    /** Removes the part of a line that was written; false if that fails, or another process has written into it. */
    private boolean takenBack(long begin, byte[] line) {
        try {
            long end = file.size();
            if (end <= begin || end >= begin + line.length) return true;
            var part = ByteBuffer.allocate((int) (end - begin));
            while (part.hasRemaining() && reader.read(part, begin + part.position()) > 0);
            if (!Arrays.equals(part.array(), Arrays.copyOf(line, part.capacity()))) return false;
            file.truncate(begin);
            return true;
        } catch (IOException failure) {
            return false;
        }
    }

    /** Once a second, starts the stream again at its path if another file, or none, is there. */
    private void followPath() throws IOException {
        long now = System.nanoTime();
        if (now - looked < 1_000_000_000L) return;
        looked = now;
        try {
            if (keyOf(path).equals(key)) return;
        } catch (IOException | Refused moved) {
            // Another file, or none, is there.
        }
        System.err.println("toyspec: " + path + " was moved away; it is started again with its records");
        byte[] content = content();
        int end = content.length;
        while (end > 0 && content[end - 1] != '\n') end--;
        FileChannel oldFile = file, oldReader = reader;
        Files.createDirectories(directory);
        if (Files.exists(path, LinkOption.NOFOLLOW_LINKS)) keep(path, new ArrayDeque<>());
        Files.createFile(path);
        openChannels();
        writeAll(file, Arrays.copyOf(content, end));
        closeQuietly(oldFile);
        closeQuietly(oldReader);
    }

    /** Writes bytes with one call, or with further ones where that was cut short. */
    private static void writeAll(FileChannel channel, byte[] bytes) throws IOException {
        var rest = ByteBuffer.wrap(bytes);
        for (int empty = 0; rest.hasRemaining();) {
            empty = channel.write(rest) > 0 ? 0 : empty + 1;
            if (empty > 3) throw new IOException("writes take no byte");
        }
    }

    /** Renames the file at the path to .prev, and an earlier one of that name to the first free .prev-N. */
    private static void keep(Path path, Deque<Action> undo) throws IOException {
        Path previous = Path.of(path + ".prev");
        if (Files.exists(previous, LinkOption.NOFOLLOW_LINKS)) {
            Path older = free(previous + "-1", 1, previous.toString());
            Files.move(previous, older);
            undo.push(() -> Files.move(older, previous));
        }
        Files.move(path, previous);
        undo.push(() -> Files.move(previous, path));
    }

    private static Path free(String name, int number, String stem) {
        while (Files.exists(Path.of(name), LinkOption.NOFOLLOW_LINKS)) name = stem + "-" + number++;
        return Path.of(name);
    }

    private void syncDirectory() throws IOException {
        if (IS_WINDOWS) return;
        try (var folder = FileChannel.open(directory, StandardOpenOption.READ)) {
            folder.force(true);
        } catch (IOException failure) {
            // Some file systems cannot sync a directory.
            if (!String.valueOf(failure.getMessage()).contains("Invalid argument")) throw failure;
        }
    }

    private static void closeQuietly(FileChannel channel) {
        try {
            if (channel != null) channel.close();
        } catch (IOException failure) {
            // Everything that was acknowledged has been written.
        }
    }

    /** Returns a record as a line; throws for what cannot be written unchanged. */
    private static byte[] line(Map<String, ?> record) {
        if (!(record.get("kind") instanceof String)) throw new Refused("a record needs a kind");
        Object step = record.containsKey("step") ? record.get("step") : Long.valueOf(0);
        boolean isInteger = step instanceof Long || step instanceof Integer;
        if (!isInteger || ((Number) step).longValue() < 0) throw new Refused("step must be an integer from 0 to 2^63 - 1");
        var text = new StringBuilder();
        json(record, text, MAX_DEPTH);
        text.append('\n');
        CharsetEncoder encoder = StandardCharsets.UTF_8.newEncoder();
        try {
            var bytes = encoder.encode(CharBuffer.wrap(text));
            if (bytes.remaining() > MAX_LINE_BYTES) throw new Refused("a line is longer than 16777216 bytes");
            return Arrays.copyOf(bytes.array(), bytes.remaining());
        } catch (CharacterCodingException failure) {
            throw new Refused("text has half a surrogate pair");
        }
    }

    private static void json(Object value, StringBuilder text, int depth) {
        if (depth == 0) throw new Refused("a record is nested more than " + MAX_DEPTH + " levels deep");
        if (value instanceof CharSequence words) {
            quote(words, text);
        } else if (value == null || value instanceof Boolean) {
            text.append(value);
        } else if (value instanceof Number number && Double.isFinite(number.doubleValue())) {
            boolean isPlain = number instanceof Double || number instanceof Float || number instanceof Long
                || number instanceof Integer || number instanceof Short || number instanceof Byte || number instanceof BigInteger;
            text.append(isPlain ? number.toString() : Double.toString(number.doubleValue()));
        } else if (value instanceof Map<?, ?> members) {
            char separator = '{';
            for (var member : members.entrySet()) {
                if (!(member.getKey() instanceof String name)) throw new Refused("the key " + member.getKey() + " must be text");
                text.append(separator);
                separator = ',';
                quote(name, text);
                text.append(':');
                json(member.getValue(), text, depth - 1);
            }
            text.append(separator == '{' ? "{}" : "}");
        } else if (value instanceof List<?> items) {
            char separator = '[';
            for (Object item : items) {
                text.append(separator);
                separator = ',';
                json(item, text, depth - 1);
            }
            text.append(separator == '[' ? "[]" : "]");
        } else {
            throw new Refused(value.getClass().getName() + " cannot be written as JSON");
        }
    }

    private static void quote(CharSequence words, StringBuilder text) {
        text.append('"');
        for (int at = 0; at < words.length(); at++) {
            char c = words.charAt(at);
            if (c == '"' || c == '\\') text.append('\\').append(c);
            else if (c < 0x20) text.append(String.format("\\u%04x", (int) c));
            else text.append(c);
        }
        text.append('"');
    }

    /** Reads the object in a line; throws for a line that has none. */
    private static final class Parser {
        private final String line;
        private int at;

        Parser(String line) { this.line = line; }

        Map<?, ?> object() {
            if (value(MAX_DEPTH) instanceof Map<?, ?> found && peek() == 0) return found;
            throw damaged();
        }

        private Object value(int depth) {
            char c = peek();
            if (depth == 0) throw damaged();
            if (c == '{') return members(depth);
            if (c == '[') return items(depth);
            if (c == '"') return string();
            for (String word : List.of("null", "true", "false"))
                if (line.startsWith(word, at)) {
                    at += word.length();
                    return word;
                }
            int begin = at;
            while (at < line.length() && "+-.eE0123456789".indexOf(line.charAt(at)) >= 0) at++;
            try {
                return Double.valueOf(line.substring(begin, at));
            } catch (NumberFormatException failure) {
                throw damaged();
            }
        }

        private Map<String, Object> members(int depth) {
            Map<String, Object> found = new LinkedHashMap<>();
            for (at++; peek() != '}'; ) {
                if (!found.isEmpty()) expect(',');
                if (peek() != '"') throw damaged();
                String name = string();
                expect(':');
                found.put(name, value(depth - 1));
            }
            at++;
            return found;
        }

        private List<Object> items(int depth) {
            List<Object> found = new ArrayList<>();
            for (at++; peek() != ']'; ) {
                if (!found.isEmpty()) expect(',');
                found.add(value(depth - 1));
            }
            at++;
            return found;
        }

        private String string() {
            var found = new StringBuilder();
            for (at++; at < line.length() && line.charAt(at) != '"'; at++) {
                char c = line.charAt(at);
                if (c < 0x20) throw damaged();
                if (c != '\\') {
                    found.append(c);
                    continue;
                }
                int escape = ++at < line.length() ? "\"\\/bfnrtu".indexOf(line.charAt(at)) : -1;
                if (escape < 0) throw damaged();
                if (escape < 8) found.append("\"\\/\b\f\n\r\t".charAt(escape));
                else {
                    if (at + 5 > line.length()) throw damaged();
                    try {
                        found.append((char) Integer.parseInt(line.substring(at + 1, at + 5), 16));
                    } catch (NumberFormatException failure) {
                        throw damaged();
                    }
                    at += 4;
                }
            }
            if (at++ >= line.length()) throw damaged();
            return found.toString();
        }

        private char peek() {
            while (at < line.length() && " \t\r".indexOf(line.charAt(at)) >= 0) at++;
            return at < line.length() ? line.charAt(at) : 0;
        }

        private void expect(char c) {
            if (peek() != c) throw damaged();
            at++;
        }

        private static Refused damaged() { return new Refused("a line is damaged; `toyspec check` says where"); }
    }
}
