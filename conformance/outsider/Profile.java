import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/** A profile: the name of its stream, and its schemas, which are read from the bundled schema on the class path. */
enum Profile {
    TOY("toy/v1", "events.jsonl"),
    METRICS("metrics/v1", "metrics.jsonl"),
    KAUN("kaun/v1", "events.jsonl");

    final String id;
    final String fileName;
    private Map<?, ?> bundle;

    Profile(String id, String fileName) {
        this.id = id;
        this.fileName = fileName;
    }

    static Profile of(String id) {
        return List.of(values()).stream().filter(profile -> profile.id.equals(id)).findFirst()
            .orElseThrow(() -> new IllegalArgumentException("there is no profile " + id));
    }

    /** The schema of the kind of a record; for an unknown kind one that names the tag alone. */
    Schema schemaOf(Map<String, Object> record) {
        Map<?, ?> definitions = (Map<?, ?>) bundle().get("$defs");
        if (!(bundle().get("discriminator") instanceof Map<?, ?> discriminator)) {
            return new Schema((Map<?, ?>) definitions.get("entry"), definitions);
        }
        Object tag = discriminator.get("propertyName");
        if (!(record.get(tag) instanceof String kind)) {
            throw new IllegalArgumentException("the record has no " + tag);
        }
        boolean isKnown = ((Map<?, ?>) discriminator.get("mapping")).containsKey(kind);
        return new Schema(isKnown ? (Map<?, ?>) definitions.get(kind) : Map.of("properties", Map.of(tag, Map.of())), definitions);
    }

    private synchronized Map<?, ?> bundle() {
        if (bundle == null) {
            String name = "/" + id.replace('/', '-') + ".json";
            try (InputStream file = Profile.class.getResourceAsStream(name)) {
                bundle = (Map<?, ?>) Json.parse(new String(file.readAllBytes(), StandardCharsets.UTF_8));
            } catch (IOException error) {
                throw new UncheckedIOException(name, error);
            }
        }
        return bundle;
    }
}
