import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A stream that this process has locked and appends to. */
final class StreamFile implements AutoCloseable {
    /**
     * The files that this process holds. Java's lock belongs to the process, and closing any other channel to the file gives
     * it up: so no second one is opened.
     */
    private static final Set<Object> HELD = ConcurrentHashMap.newKeySet();

    final Path path;
    private final FileChannel channel;
    private final FileChannel reader;
    private final Object key;
    private long size;

    private StreamFile(Path path, OpenOption... options) throws IOException {
        this.path = path;
        channel = FileChannel.open(path, options);
        reader = FileChannel.open(path, StandardOpenOption.READ);
        key = Files.readAttributes(path, BasicFileAttributes.class).fileKey();
        size = channel.size();
    }

    /** The stream at the path, locked; null where there is none. */
    static StreamFile open(Path path) throws IOException {
        for (int attempt = 0; attempt < 10; attempt++) {
            Object before = keyOf(path);
            if (before == null) {
                return null;
            }
            if (!Files.isRegularFile(path)) {
                throw new IOException(path + " is not a regular file");
            }
            refuseWhere(HELD.contains(before), path);
            StreamFile file = locked(new StreamFile(path, StandardOpenOption.WRITE, StandardOpenOption.APPEND));
            if (before.equals(file.key) && before.equals(keyOf(path))) {
                return file;
            }
            file.close(); // another writer moved the file away before it was locked
        }
        throw new IOException(path + " is replaced again and again");
    }

    /** A new stream at the path, locked. */
    static StreamFile create(Path path) throws IOException {
        return locked(new StreamFile(path, StandardOpenOption.WRITE, StandardOpenOption.APPEND, StandardOpenOption.CREATE_NEW));
    }

    private static StreamFile locked(StreamFile file) throws IOException {
        FileLock lock;
        try {
            lock = file.channel.tryLock();
        } catch (IOException notAvailable) {
            return file; // this file system has no locks
        }
        if (lock == null || !HELD.add(file.key)) {
            file.closeChannels();
            refuseWhere(true, file.path);
        }
        return file;
    }

    private static void refuseWhere(boolean isHeld, Path path) throws IOException {
        if (isHeld) {
            throw new IOException(path + " is held by another writer");
        }
    }

    private static Object keyOf(Path path) throws IOException {
        try {
            return Files.readAttributes(path, BasicFileAttributes.class).fileKey();
        } catch (NoSuchFileException error) {
            return null;
        }
    }

    byte[] content() throws IOException {
        ByteBuffer content = ByteBuffer.allocate(Math.toIntExact(reader.size()));
        while (content.hasRemaining() && reader.read(content, content.position()) >= 0) {
            // one turn, unless a read is cut short
        }
        return content.array();
    }

    /** Appends all of the bytes or none. */
    void append(byte[] bytes) throws IOException {
        ByteBuffer left = ByteBuffer.wrap(bytes);
        try {
            while (left.hasRemaining()) { // one turn, unless a write is cut short
                channel.write(left);
            }
        } catch (IOException error) {
            // Only bytes of this writer are cut, so another size means: leave it.
            if (channel.size() == size + left.position()) {
                channel.truncate(size);
            }
            throw error;
        }
        size += bytes.length;
    }

    /** Cuts the stream after its first {@code committed} bytes. */
    void cut(long committed) throws IOException {
        channel.truncate(committed);
        size = committed;
    }

    void sync() throws IOException {
        channel.force(true);
        syncDirectory(path.toAbsolutePath().getParent());
    }

    static void syncDirectory(Path directory) throws IOException {
        try (FileChannel opened = FileChannel.open(directory, StandardOpenOption.READ)) {
            opened.force(true);
        }
    }

    @Override
    public void close() throws IOException {
        closeChannels();
        HELD.remove(key);
    }

    private void closeChannels() throws IOException {
        channel.close();
        reader.close();
    }
}
