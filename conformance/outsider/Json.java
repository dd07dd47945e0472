import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * JSON by the grammar of RFC 8259 and nothing else. Objects are maps in the order of the text, numbers of digits only are
 * {@link BigInteger}, all others {@link Double}.
 */
final class Json {
    static final int MAX_DEPTH = 64;
    static final int MAX_LINE_BYTES = 16_777_216;

    private final String text;
    private final int maxDepth;
    private final boolean allowsHalfPairs;
    private int at;
    private int depth;

    private Json(String text, int maxDepth, boolean allowsHalfPairs) {
        this.text = text;
        this.maxDepth = maxDepth;
        this.allowsHalfPairs = allowsHalfPairs;
    }

    /** The value of a text of any depth. A string may hold half a surrogate pair: whoever writes it has to refuse it. */
    static Object parse(String text) {
        return new Json(text, Integer.MAX_VALUE, true).document();
    }

    /** The record on a line of a stream, or an exception where the line is not readable. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> parseLine(byte[] line) {
        if (line.length > MAX_LINE_BYTES) {
            throw new IllegalArgumentException("the line is longer than " + MAX_LINE_BYTES + " bytes");
        }
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(line)).toString();
            if (new Json(text, MAX_DEPTH, false).document() instanceof Map<?, ?> record) {
                return (Map<String, Object>) record;
            }
        } catch (CharacterCodingException error) {
            throw new IllegalArgumentException("the line is not UTF-8", error);
        }
        throw new IllegalArgumentException("the line is not an object");
    }

    private Object document() {
        Object value = value();
        space();
        if (at < text.length()) {
            throw wrong("the end");
        }
        return value;
    }

    private Object value() {
        space();
        return switch (peek()) {
            case '{' -> nested(this::object);
            case '[' -> nested(this::array);
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Object nested(Supplier<Object> inner) {
        if (++depth > maxDepth) {
            throw new IllegalArgumentException("nested deeper than " + maxDepth);
        }
        at++;
        Object value = inner.get();
        depth--;
        return value;
    }

    private Map<String, Object> object() {
        Map<String, Object> members = new LinkedHashMap<>();
        space();
        if (take('}')) {
            return members;
        }
        do {
            space();
            String key = string();
            space();
            expect(':');
            members.put(key, value());
            space();
        } while (take(','));
        expect('}');
        return members;
    }

    private List<Object> array() {
        List<Object> items = new ArrayList<>();
        space();
        if (take(']')) {
            return items;
        }
        do {
            items.add(value());
            space();
        } while (take(','));
        expect(']');
        return items;
    }

    private String string() {
        expect('"');
        StringBuilder string = new StringBuilder();
        while (!take('"')) {
            char next = peek();
            if (next < ' ') {
                throw wrong("a character of a string");
            }
            at++;
            string.append(next == '\\' ? escaped() : next);
        }
        if (!allowsHalfPairs) {
            Text.requireUnicode(string);
        }
        return string.toString();
    }

    private char escaped() {
        char letter = peek();
        at++;
        return switch (letter) {
            case '"', '\\', '/' -> letter;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> hexadecimal();
            default -> throw wrong("an escape");
        };
    }

    private char hexadecimal() {
        int code = 0;
        for (int i = 0; i < 4; i++, at++) {
            int digit = "0123456789abcdef".indexOf(Character.toLowerCase(peek()));
            if (digit < 0) {
                throw wrong("a hexadecimal digit");
            }
            code = code * 16 + digit;
        }
        return (char) code;
    }

    private Object number() {
        int start = at;
        take('-');
        if (!take('0')) {
            digits();
        }
        boolean isInteger = true;
        if (take('.')) {
            digits();
            isInteger = false;
        }
        if (take('e') || take('E')) {
            if (!take('+')) {
                take('-');
            }
            digits();
            isInteger = false;
        }
        String number = text.substring(start, at);
        double nearest = Double.parseDouble(number);
        if (Double.isInfinite(nearest)) {
            throw new IllegalArgumentException("a number is beyond the range of binary64");
        }
        return isInteger ? (Object) new BigInteger(number) : nearest;
    }

    private void digits() {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == start) {
            throw wrong("a digit");
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong(word);
        }
        at += word.length();
        return value;
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char peek() {
        if (at == text.length()) {
            throw wrong("more");
        }
        return text.charAt(at);
    }

    private boolean take(char wanted) {
        boolean isThere = at < text.length() && text.charAt(at) == wanted;
        at += isThere ? 1 : 0;
        return isThere;
    }

    private void expect(char wanted) {
        if (!take(wanted)) {
            throw wrong("'" + wanted + "'");
        }
    }

    private IllegalArgumentException wrong(String expected) {
        return new IllegalArgumentException("not JSON at character " + at + ": expected " + expected);
    }
}
