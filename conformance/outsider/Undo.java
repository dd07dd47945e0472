import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;

/** The steps that take back a start that fails, last one first. */
final class Undo {
    /** One step. */
    interface Step {
        void run() throws IOException;
    }

    private final Deque<Step> steps = new ArrayDeque<>();

    void add(Step step) {
        steps.push(step);
    }

    void run() throws IOException {
        while (!steps.isEmpty()) {
            steps.pop().run();
        }
    }
}
