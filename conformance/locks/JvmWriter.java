import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * A writer of the Java platform, for the lock matrix: it locks a file as Java programs do, with FileChannel.tryLock.
 *
 * Each line of standard input is a command, each is answered with one line. "hold PATH" opens and locks a file and
 * keeps it, "release" closes it, "append PATH" locks a file, writes an empty line to it and closes it. The answer is
 * "written", or "refused" where another program holds the file.
 */
public final class JvmWriter {
    private static FileChannel held;

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(line.split(" ", 2)));
        }
    }

    private static String answer(String[] words) throws IOException {
        if (words[0].equals("release")) {
            held.close();
            return "written";
        }
        FileChannel channel = FileChannel.open(Path.of(words[1]), StandardOpenOption.WRITE, StandardOpenOption.APPEND);
        FileLock lock = channel.tryLock();
        if (lock == null) {
            channel.close();
            return "refused";
        }
        if (words[0].equals("hold")) {
            held = channel;
        } else {
            channel.write(ByteBuffer.wrap(new byte[] {'\n'}));
            channel.close();
        }
        return "written";
    }
}
