import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The files beside a stream that keep what was in it. Nothing is ever overwritten. */
final class SideFiles {
    private SideFiles() {}

    /** Moves the stream to {@code .prev}, and a file of that name to the first free {@code .prev-N}. */
    static void keepReplaced(Path stream, Undo undo) throws IOException {
        Path previous = beside(stream, ".prev");
        if (Files.exists(previous)) {
            int n = 1;
            while (Files.exists(beside(stream, ".prev-" + n))) {
                n++;
            }
            move(previous, beside(stream, ".prev-" + n), undo);
        }
        move(stream, previous, undo);
    }

    /** Moves the fragment of the stream into a file of its own, which is on the disk before the stream is cut. */
    static void keepFragment(StreamFile stream, Existing existing, Undo undo) throws IOException {
        Path kept = null;
        for (int n = 1; kept == null; n++) {
            Path free = beside(stream.path, ".torn-" + existing.committed + (n == 1 ? "" : "-" + n));
            kept = Files.exists(free) ? null : free;
        }
        Path created = kept;
        Files.write(created, existing.fragment, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, StandardOpenOption.DSYNC);
        undo.add(() -> Files.delete(created));
        StreamFile.syncDirectory(created.toAbsolutePath().getParent());
        stream.cut(existing.committed);
        undo.add(() -> stream.append(existing.fragment));
    }

    private static void move(Path from, Path to, Undo undo) throws IOException {
        Files.move(from, to);
        undo.add(() -> Files.move(to, from));
    }

    private static Path beside(Path stream, String ending) {
        return stream.resolveSibling(stream.getFileName() + ending);
    }
}
