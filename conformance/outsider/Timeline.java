import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;

/** The records of a toy/v1 stream so far, and so which record may follow. */
final class Timeline {
    private static final Pattern SAFE_ID = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,127}");

    private final Map<String, BigInteger> steps = new HashMap<>();
    private Map<String, Object> lastTrainStep = Map.of();
    private String phase = "train";
    private double lastT;
    private double shift;
    private boolean hasRecords;
    private boolean isResuming;
    private boolean wasResumed;
    private boolean hasEnded;

    /** The next record belongs to another process, whose clock reads {@code now}. */
    void resume(double now) {
        isResuming = hasRecords;
        wasResumed = hasRecords;
        shift = lastT - now;
    }

    boolean hasRecords() {
        return hasRecords;
    }

    boolean hasEnded() {
        return hasEnded;
    }

    /** The record with its {@code t} as it has to be written. Refuses a record that must not follow. */
    Map<String, Object> placed(Map<String, Object> record) {
        Object kind = record.get("kind");
        refuseWhere(hasEnded, "the run has ended");
        refuseWhere(hasRecords == "run_start".equals(kind), hasRecords ? "there is a run_start already" : "a run begins with run_start");
        refuseWhere(isResuming && !"run_resume".equals(kind), "a resumed run goes on with run_resume");
        refuseWhere("run_start".equals(kind) && !isSafe(record.get("run_id")), "the run id is not safe as the name of a directory");
        if ("step".equals(kind) && record.get("step") instanceof BigInteger step) {
            BigInteger last = steps.get(phaseOf(record));
            refuseWhere(last != null && step.compareTo(last) <= 0, "step " + step + " after step " + last);
        }
        if (!(record.get("t") instanceof Number t)) {
            return record;
        }
        Map<String, Object> placed = new LinkedHashMap<>(record);
        double shifted = wasResumed ? t.doubleValue() + shift : t.doubleValue(); // -0.0 + 0.0 would be 0.0
        placed.put("t", shifted < lastT ? (Double) lastT : (Double) shifted);
        return placed;
    }

    /** Takes in a record that is in the stream. */
    void note(Map<String, Object> record) {
        String kind = record.get("kind") instanceof String known ? known : "";
        BigInteger step = integer(record.get(kind.equals("run_resume") ? "from_step" : "step")); // null where another writer was wrong
        if (record.get("t") instanceof Number t && t.doubleValue() >= 0) {
            lastT = t.doubleValue();
        }
        if (kind.equals("run_start") && record.get("phase") instanceof String named) {
            phase = named;
        } else if (kind.equals("run_resume")) {
            steps.clear();
            if (step != null) {
                steps.put("train", step);
            }
        } else if (kind.equals("step") && step != null) {
            steps.put(phaseOf(record), step);
            lastTrainStep = phaseOf(record).equals("train") ? record : lastTrainStep;
        }
        hasRecords = true;
        isResuming = false;
        hasEnded |= kind.equals("run_end");
    }

    /** The {@code run_end} for this stream. */
    Map<String, Object> end(String reason, String error, double now) {
        Map<String, Object> end = new LinkedHashMap<>();
        end.put("kind", "run_end");
        end.put("t", now);
        end.put("reason", reason);
        if (lastTrainStep.containsKey("step")) {
            end.put("final_step", integer(lastTrainStep.get("step")));
        }
        if (lastTrainStep.containsKey("loss")) {
            end.put("final_loss", lastTrainStep.get("loss"));
        }
        if (error != null) {
            end.put("error", error);
        }
        return end;
    }

    private String phaseOf(Map<String, Object> record) {
        return record.get("phase") instanceof String named ? named : phase;
    }

    /** The integer, which another writer may have written as 3.0; null where the value is not one. */
    private static BigInteger integer(Object value) {
        if (value instanceof Double number && number == Math.rint(number) && !number.isInfinite()) {
            return new BigDecimal(number).toBigInteger();
        }
        return value instanceof BigInteger whole ? whole : null;
    }

    private static boolean isSafe(Object id) {
        return id instanceof String text && SAFE_ID.matcher(text).matches();
    }

    private static void refuseWhere(boolean isWrong, String reason) {
        if (isWrong) {
            throw new IllegalArgumentException(reason);
        }
    }
}
