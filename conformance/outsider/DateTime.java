import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Dates and times as the specification's chapter Encoding allows them. */
final class DateTime {
    private static final Pattern FORM = Pattern.compile(
        "([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\\.[0-9]+)?(?:Z|([+-])([0-9]{2}):([0-9]{2}))");

    private DateTime() {}

    static boolean isValid(String text) {
        Matcher found = FORM.matcher(text);
        if (!found.matches()) {
            return false;
        }
        try {
            LocalDate.of(part(found, 1), part(found, 2), part(found, 3));
        } catch (DateTimeException error) {
            return false;
        }
        int minutes = part(found, 4) * 60 + part(found, 5);
        int offset = (part(found, 8) * 60 + part(found, 9)) * ("-".equals(found.group(7)) ? -1 : 1);
        boolean isLastMinute = Math.floorMod(minutes - offset, 1440) == 1439;
        return part(found, 4) < 24 && part(found, 5) < 60 && part(found, 8) < 24 && part(found, 9) < 60
            && part(found, 6) < (isLastMinute ? 61 : 60);
    }

    private static int part(Matcher found, int group) {
        return found.group(group) == null ? 0 : Integer.parseInt(found.group(group));
    }
}
