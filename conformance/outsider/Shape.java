import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Brings a value into the shape in which it is written: keys in canonical order, each number in the type of its place, null
 * for what is not finite. Refuses with {@link IllegalArgumentException} what the schema does not accept.
 */
final class Shape {
    private Shape() {}

    @SuppressWarnings("unchecked")
    static Map<String, Object> of(Map<String, Object> record, Schema schema) {
        return (Map<String, Object>) fit(record, schema, "record", 1);
    }

    private static Object fit(Object given, Schema schema, String place, int depth) {
        if (depth > Json.MAX_DEPTH && (given instanceof Map || given instanceof List)) {
            throw refused(place, "is nested deeper than " + Json.MAX_DEPTH);
        }
        Object value = given instanceof Number number ? number(number, schema, place) : given;
        requireType(value, schema, place);
        requireListed(value, schema, place);
        if (value instanceof Map<?, ?> members) {
            return members(members, schema, place, depth);
        } else if (value instanceof List<?> items) {
            return items(items, schema, place, depth);
        } else if (value instanceof Number number) {
            requireRange(new BigDecimal(number.toString()), schema, place);
        } else if (value instanceof String string) {
            requireForm(string, schema, place);
        }
        return value;
    }

    private static Number number(Number given, Schema schema, String place) {
        double nearest = given.doubleValue();
        if (given instanceof BigInteger) {
            if (Double.isInfinite(nearest)) {
                throw refused(place, "is beyond the range of binary64");
            }
            if (!schema.isNumber()) {
                return given;
            }
        }
        if (schema.isBinary32()) {
            float narrow = (float) nearest;
            return Float.isFinite(narrow) ? (Number) narrow : null;
        }
        return Double.isFinite(nearest) ? nearest : null;
    }

    private static void requireType(Object value, Schema schema, String place) {
        String type = value == null ? "null"
            : value instanceof Boolean ? "boolean"
            : value instanceof String ? "string"
            : value instanceof Map ? "object"
            : value instanceof List ? "array"
            : value instanceof BigInteger ? "integer" : "number";
        if (!schema.types().isEmpty() && !schema.types().contains(type)) {
            throw refused(place, "is of type " + type + ", expected " + schema.types());
        }
    }

    private static void requireListed(Object value, Schema schema, String place) {
        List<?> listed = schema.get("enum") instanceof List<?> several ? several
            : schema.get("const") != null ? List.of(schema.get("const")) : null;
        if (listed != null && !listed.contains(value)) {
            throw refused(place, "must be one of " + listed);
        }
    }

    private static void requireRange(BigDecimal number, Schema schema, String place) {
        BigDecimal least = schema.bound("minimum");
        BigDecimal most = schema.bound("maximum");
        BigDecimal above = schema.bound("exclusiveMinimum");
        BigDecimal below = schema.bound("exclusiveMaximum");
        if (least != null && number.compareTo(least) < 0 || most != null && number.compareTo(most) > 0
            || above != null && number.compareTo(above) <= 0 || below != null && number.compareTo(below) >= 0) {
            throw refused(place, "is " + number + ", out of range");
        }
    }

    private static void requireForm(String string, Schema schema, String place) {
        Text.requireUnicode(string);
        if (schema.get("pattern") instanceof String pattern && !Pattern.compile(pattern).matcher(string).find()) {
            throw refused(place, "must match " + pattern);
        }
        if ("date-time".equals(schema.get("format")) && !DateTime.isValid(string)) {
            throw refused(place, "is not an RFC 3339 date and time");
        }
    }

    private static List<Object> items(List<?> items, Schema schema, String place, int depth) {
        requireCount("minItems", items.size(), schema, place, 1);
        requireCount("maxItems", items.size(), schema, place, -1);
        List<Object> fitted = new ArrayList<>();
        for (Object item : items) {
            fitted.add(fit(item, schema.items(), place + "/" + fitted.size(), depth + 1));
        }
        return fitted;
    }

    private static void requireCount(String keyword, int count, Schema schema, String place, int sign) {
        BigDecimal bound = schema.bound(keyword);
        if (bound != null && bound.compareTo(BigDecimal.valueOf(count)) * sign > 0) {
            throw refused(place, "has " + count + " items, " + keyword + " is " + bound);
        }
    }

    private static Map<String, Object> members(Map<?, ?> members, Schema schema, String place, int depth) {
        for (Object key : schema.required()) {
            if (!members.containsKey(key)) {
                throw refused(place, "has no " + key);
            }
        }
        List<String> keys = new ArrayList<>();
        schema.keys().stream().filter(members::containsKey).forEach(key -> keys.add((String) key));
        members.keySet().stream().map(String.class::cast).filter(key -> !schema.keys().contains(key))
            .sorted(Shape::compareBytes).forEach(keys::add);
        Map<String, Object> fitted = new LinkedHashMap<>();
        for (String key : keys) {
            Text.requireUnicode(key);
            fitted.put(key, fit(members.get(key), schema.member(key), place + "/" + key, depth + 1));
        }
        return fitted;
    }

    private static int compareBytes(String left, String right) {
        return Arrays.compareUnsigned(left.getBytes(StandardCharsets.UTF_8), right.getBytes(StandardCharsets.UTF_8));
    }

    private static IllegalArgumentException refused(String place, String reason) {
        return new IllegalArgumentException(place + " " + reason);
    }
}
