import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** One place of a record: the keywords of its schema, with {@code $ref} resolved. */
record Schema(Map<?, ?> keywords, Map<?, ?> definitions) {
    static Schema any() {
        return new Schema(Map.of(), Map.of());
    }

    Object get(String keyword) {
        return keywords.get(keyword);
    }

    /** The types that are allowed; none means all. */
    List<?> types() {
        Object type = get("type");
        return type == null ? List.of() : type instanceof List<?> several ? several : List.of(type);
    }

    boolean isNumber() {
        return types().contains("number");
    }

    boolean isBinary32() {
        return isNumber() && BigInteger.valueOf(32).equals(get("x-width"));
    }

    /** The keys that the schema names, in its order. */
    Set<?> keys() {
        return object("properties").keySet();
    }

    List<?> required() {
        return get("required") instanceof List<?> keys ? keys : List.of();
    }

    Schema member(String key) {
        Object named = object("properties").get(key);
        return named != null ? at(named) : at(object("additionalProperties"));
    }

    Schema items() {
        return at(object("items"));
    }

    BigDecimal bound(String keyword) {
        return get(keyword) == null ? null : new BigDecimal(get(keyword).toString());
    }

    private Map<?, ?> object(String keyword) {
        return get(keyword) instanceof Map<?, ?> found ? found : Map.of();
    }

    private Schema at(Object node) {
        Map<?, ?> found = (Map<?, ?>) node;
        while (found.get("$ref") instanceof String reference) {
            found = (Map<?, ?>) definitions.get(reference.substring(reference.lastIndexOf('/') + 1));
        }
        return new Schema(found, definitions);
    }
}
