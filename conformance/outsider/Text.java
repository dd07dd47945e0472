import java.util.List;
import java.util.Map;

/** The canonical text of a value that {@link Shape} has brought into its order and number types. */
final class Text {
    private Text() {}

    static String of(Object value) {
        StringBuilder text = new StringBuilder();
        append(text, value);
        return text.toString();
    }

    static void requireUnicode(CharSequence string) {
        if (string.codePoints().anyMatch(point -> point >= 0xd800 && point <= 0xdfff)) {
            throw new IllegalArgumentException("a string has half a surrogate pair");
        }
    }

    private static void append(StringBuilder text, Object value) {
        if (value instanceof Map<?, ?> members) {
            String separator = "{";
            for (Map.Entry<?, ?> member : members.entrySet()) {
                appendString(text.append(separator), (String) member.getKey());
                append(text.append(':'), member.getValue());
                separator = ",";
            }
            text.append(members.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> items) {
            String separator = "[";
            for (Object item : items) {
                append(text.append(separator), item);
                separator = ",";
            }
            text.append(items.isEmpty() ? "[]" : "]");
        } else if (value instanceof String string) {
            appendString(text, string);
        } else if (value instanceof Double number) {
            text.append(FloatText.of((double) number));
        } else if (value instanceof Float number) {
            text.append(FloatText.of((float) number));
        } else {
            text.append(value); // null, booleans and integers
        }
    }

    private static void appendString(StringBuilder text, String string) {
        text.append('"');
        for (char c : string.toCharArray()) {
            switch (c) {
                case '"', '\\' -> text.append('\\').append(c);
                case '\b' -> text.append("\\b");
                case '\f' -> text.append("\\f");
                case '\n' -> text.append("\\n");
                case '\r' -> text.append("\\r");
                case '\t' -> text.append("\\t");
                default -> text.append(c < ' ' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
            }
        }
        text.append('"');
    }
}
