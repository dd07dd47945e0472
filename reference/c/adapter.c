/* Lets the conformance runner test this implementation: see conformance/PROTOCOL.md. */
#define _POSIX_C_SOURCE 200809L

#include "toyspec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char hello[] =
    "{\"hello\":{\"protocol\":1,\"name\":\"toyspec-c\",\"language\":\"C\",\"version\":\"0.1.0\",\"profiles\":[\"toy/v1\",\"metrics/v1\",\"kaun/v1\"],"
    "\"roles\":[\"reader\",\"writer\",\"canonical-writer\"],\"lines\":true,\"capabilities\":[\"line_limit\",\"own_kinds\"]}}";

struct out {
    char *bytes;
    size_t length, capacity;
};

static void *checked(void *memory) {
    if (memory) return memory;
    fputs("out of memory\n", stderr);
    exit(3);
}

static void add(struct out *out, const char *bytes, size_t length) {
    if (out->capacity - out->length < length + 1) {
        out->capacity = (out->length + length) * 2 + 256;
        out->bytes = checked(realloc(out->bytes, out->capacity));
    }
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
    out->bytes[out->length] = 0;
}

static void say(struct out *out, const char *text) { add(out, text, strlen(text)); }

static void say_count(struct out *out, const char *label, uint64_t value) {
    char text[96];
    add(out, text, (size_t)snprintf(text, sizeof text, "%s%llu", label, (unsigned long long)value));
}

static void say_string(struct out *out, struct toyspec_text text) {
    say(out, "\"");
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        char escape[8];
        if (c >= 0x20 && c != '"' && c != '\\') add(out, &text.bytes[i], 1);
        else add(out, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
    }
    say(out, "\"");
}

static bool is_word(struct toyspec_text text, const char *word) {
    return text.length == strlen(word) && memcmp(text.bytes, word, text.length) == 0;
}

static bool is_tag(struct toyspec_text key) {
    return is_word(key, "int") || is_word(key, "float") || is_word(key, "f32") || is_word(key, "object");
}

/* ---- Tagged values, out ---- */

struct place {
    const char *profile;
    const struct toyspec_value *record;
    const char *path[TOYSPEC_MAX_DEPTH + 1];
    size_t depth;
};

static void say_number(struct out *out, const struct toyspec_value *value, struct place *place) {
    const double binary32_limit = 3.4028235677973366e38;
    int width = toyspec_number_width(place->profile, place->record, place->path, place->depth);
    char text[32];
    if (width == 0 && value->type == TOYSPEC_INTEGER) {
        say(out, "{\"int\":\"");
        if (is_word(value->text, "-0")) say(out, "0");
        else add(out, value->text.bytes, value->text.length);
    } else if (width == 32 && fabs(value->number) < binary32_limit) {
        say(out, "{\"f32\":\"");
        add(out, text, toyspec_binary32_text((float)value->number, text));
    } else {
        say(out, "{\"float\":\"");
        add(out, text, toyspec_binary64_text(value->number, text));
    }
    say(out, "\"}");
}

static void say_value(struct out *out, const struct toyspec_value *value, struct place *place);

static void say_members(struct out *out, const struct toyspec_value *value, struct place *place) {
    size_t said = 0, distinct = 0;
    struct toyspec_text only = {"", 0};
    for (size_t i = 0; i < value->count; i++) {
        size_t j = i + 1; /* of a repeated key the last counts */
        while (j < value->count && !(value->members[j].key.length == value->members[i].key.length &&
                                     memcmp(value->members[j].key.bytes, value->members[i].key.bytes, value->members[i].key.length) == 0))
            j++;
        if (j == value->count) {
            distinct++;
            only = value->members[i].key;
        }
    }
    bool wrapped = distinct == 1 && is_tag(only);
    say(out, wrapped ? "{\"object\":{" : "{");
    for (size_t i = 0; i < value->count; i++) {
        const struct toyspec_member *member = &value->members[i];
        size_t j = i + 1;
        while (j < value->count && !(value->members[j].key.length == member->key.length &&
                                     memcmp(value->members[j].key.bytes, member->key.bytes, member->key.length) == 0))
            j++;
        if (j < value->count) continue;
        if (said++) say(out, ",");
        say_string(out, member->key);
        say(out, ":");
        place->path[place->depth++] = member->key.bytes;
        say_value(out, &member->value, place);
        place->depth--;
    }
    say(out, wrapped ? "}}" : "}");
}

static void say_value(struct out *out, const struct toyspec_value *value, struct place *place) {
    switch (value->type) {
    case TOYSPEC_NULL: say(out, "null"); break;
    case TOYSPEC_BOOLEAN: say(out, value->boolean ? "true" : "false"); break;
    case TOYSPEC_STRING: say_string(out, value->text); break;
    case TOYSPEC_INTEGER:
    case TOYSPEC_FLOAT: say_number(out, value, place); break;
    case TOYSPEC_OBJECT: say_members(out, value, place); break;
    case TOYSPEC_ARRAY:
        say(out, "[");
        place->path[place->depth++] = toyspec_item;
        for (size_t i = 0; i < value->count; i++) {
            if (i) say(out, ",");
            say_value(out, &value->items[i], place);
        }
        place->depth--;
        say(out, "]");
    }
}

/* ---- Tagged values, in ---- */

/* Turns a tagged value into the value that it stands for, in place. */
static bool untag(struct toyspec_value *value) {
    if (value->type == TOYSPEC_ARRAY) {
        for (size_t i = 0; i < value->count; i++)
            if (!untag(&value->items[i])) return false;
        return true;
    }
    if (value->type != TOYSPEC_OBJECT) return value->type != TOYSPEC_INTEGER && value->type != TOYSPEC_FLOAT;
    if (value->count != 1 || !is_tag(value->members[0].key)) {
        for (size_t i = 0; i < value->count; i++)
            if (!untag(&value->members[i].value)) return false;
        return true;
    }
    struct toyspec_member *held = value->members;
    struct toyspec_value inner = held->value;
    bool object = is_word(held->key, "object"), integer = is_word(held->key, "int"), narrow = is_word(held->key, "f32");
    if (object && inner.type == TOYSPEC_OBJECT) {
        for (size_t i = 0; i < inner.count; i++)
            if (!untag(&inner.members[i].value)) return false;
        *value = inner;
    } else if (inner.type == TOYSPEC_STRING) {
        *value = (struct toyspec_value){.type = integer ? TOYSPEC_INTEGER : TOYSPEC_FLOAT, .text = inner.text, .owned = inner.owned};
        value->number = strtod(inner.text.bytes, NULL);
        if (narrow && isfinite(value->number)) value->number = (double)(float)value->number;
    } else return false;
    free((char *)held->key.bytes);
    free(held);
    return true;
}

/* ---- Base64 ---- */

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void say_base64(struct out *out, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i += 3) {
        uint32_t group = 0;
        char text[4];
        for (size_t j = 0; j < 3; j++) group = group << 8 | (i + j < length ? (unsigned char)bytes[i + j] : 0);
        for (size_t j = 0; j < 4; j++) text[j] = i + j > length ? '=' : base64[group >> (18 - 6 * j) & 63];
        add(out, text, 4);
    }
}

static struct out from_base64(struct toyspec_text text) {
    struct out out = {0};
    uint32_t group = 0;
    int bits = 0;
    add(&out, "", 0);
    for (size_t i = 0; i < text.length && text.bytes[i] != '='; i++) {
        const char *found = strchr(base64, text.bytes[i]);
        if (!found) continue;
        group = group << 6 | (uint32_t)(found - base64);
        if ((bits += 6) >= 8) {
            char byte = (char)(group >> (bits -= 8) & 255);
            add(&out, &byte, 1);
        }
    }
    return out;
}

/* ---- Answers ---- */

struct records {
    struct out *out;
    struct place place;
    size_t count;
};

/* The profile of a stream is that of its first record, which is known when the record comes. */
static const char *profile_of(const struct toyspec_value *record, const struct toyspec_options *options) {
    if (options->profile) return options->profile;
    if (toyspec_get(record, "kind")) return "toy/v1";
    if (toyspec_get(record, "type")) return "kaun/v1";
    bool entry = toyspec_get(record, "step") && toyspec_get(record, "wall_time_ms");
    return entry || (options->name && strcmp(options->name, "metrics.jsonl") == 0) ? "metrics/v1" : "toy/v1";
}

struct context {
    struct records records;
    const struct toyspec_options *options;
};

static void take(void *data, const struct toyspec_record *record) {
    struct context *context = data;
    struct records *records = &context->records;
    if (!records->place.profile) records->place.profile = profile_of(&record->value, context->options);
    records->place.record = &record->value;
    if (records->count++) say(records->out, ",");
    say_value(records->out, &record->value, &records->place);
}

static bool answer_reader(struct out *out, const struct toyspec_options *options, const char *bytes, size_t length) {
    struct out records = {0};
    struct toyspec_report report;
    struct context context = {{&records, {0}, 0}, options};
    FILE *file = checked(tmpfile());
    if (fwrite(bytes, 1, length, file) != length || fflush(file) != 0) exit(3);
    rewind(file);
    add(&records, "", 0);
    const char *refused = toyspec_read(fileno(file), options, take, &context, &report);
    fclose(file);
    say(out, refused ? "\"outcome\":\"fails\",\"profile\":\"" : "\"outcome\":\"read\",\"profile\":\"");
    say(out, report.profile);
    say(out, "\",\"state\":\"");
    say(out, report.state);
    say(out, "\",\"records\":[");
    add(out, records.bytes, records.length);
    say_count(out, "],\"count\":", report.records);
    say_count(out, ",\"committed\":", report.committed);
    say_count(out, ",\"fragment\":", report.fragment);
    say_count(out, ",\"gap_bytes\":", report.gap_bytes);
    say(out, ",\"gaps\":[");
    for (size_t i = 0; i < report.gap_count; i++) {
        say_count(out, i ? ",{\"offset\":" : "{\"offset\":", report.gaps[i].offset);
        say_count(out, ",\"length\":", report.gaps[i].length);
        say(out, ",\"reason\":\"");
        say(out, report.gaps[i].reason);
        say(out, "\"}");
    }
    say(out, "]");
    if (refused && report.gap_count) {
        say_count(out, ",\"error\":{\"line\":", report.gaps[0].line);
        say_count(out, ",\"offset\":", report.gaps[0].offset);
        say(out, ",\"reason\":\"");
        say(out, report.gaps[0].reason);
        say(out, "\"}");
    }
    free(records.bytes);
    return !refused;
}

/* Appends the canonical line of a tagged record; returns why not. */
static const char *write_tagged(const char *profile, struct toyspec_sequence *sequence, struct toyspec_value *record,
                                struct toyspec_buffer *lines) {
    if (!untag(record)) return "not a tagged record";
    const char *refused = sequence ? toyspec_admit(sequence, record) : NULL;
    if (!refused) refused = toyspec_encode(profile, record, lines);
    if (!refused && sequence) toyspec_note(sequence, record);
    return refused;
}

/* A plain writer keeps to the order of a toy/v1 stream; a canonical writer is asked for single records too. */
static bool keeps_order(const char *role, const char *profile) {
    return strcmp(role, "writer") == 0 && profile && strcmp(profile, "toy/v1") == 0;
}

static const char *member_text(const struct toyspec_value *request, const char *key) {
    const struct toyspec_value *value = toyspec_get(request, key);
    return value && value->type == TOYSPEC_STRING ? value->text.bytes : NULL;
}

static void answer_writer(struct out *out, const struct toyspec_value *request) {
    const struct toyspec_value *records = toyspec_get(request, "records");
    const char *profile = member_text(request, "profile");
    struct toyspec_sequence sequence = {0};
    struct toyspec_sequence *kept = keeps_order(member_text(request, "role"), profile) ? &sequence : NULL;
    struct toyspec_buffer lines = {0};
    const char *refused = NULL;
    for (size_t i = 0; records && i < records->count && !refused; i++)
        refused = write_tagged(profile, kept, &records->items[i], &lines);
    if (refused) {
        say(out, "\"outcome\":\"refused\",\"reason\":\"");
        say(out, refused);
    } else {
        say(out, "\"outcome\":\"written\",\"stream\":\"");
        say_base64(out, lines.bytes, lines.length);
    }
    say(out, "\"");
    free(lines.bytes);
}

static void answer(struct out *out, const struct toyspec_value *request) {
    const struct toyspec_value *id = toyspec_get(request, "id"), *limit = toyspec_get(request, "max_line_bytes");
    const char *role = member_text(request, "role");
    say(out, "{");
    if (id) {
        say(out, "\"id\":");
        add(out, id->text.bytes, id->text.length);
        say(out, ",");
    }
    if (role && strcmp(role, "reader") == 0 && toyspec_get(request, "stream")) {
        struct toyspec_options options = {member_text(request, "mode"), member_text(request, "profile"), member_text(request, "name"),
                                          limit ? (size_t)limit->number : 0};
        struct out stream = from_base64(toyspec_get(request, "stream")->text);
        answer_reader(out, &options, stream.bytes, stream.length);
        free(stream.bytes);
    } else if (role && strstr(role, "writer") && toyspec_get(request, "records")) answer_writer(out, request);
    else say(out, "\"untestable\":\"this adapter reads and writes streams\"");
    say(out, "}\n");
}

static int answer_lines(void) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    puts(hello);
    fflush(stdout);
    while ((length = getline(&line, &room, stdin)) > 0) {
        struct toyspec_value request;
        struct out out = {0};
        if (toyspec_parse(line, (size_t)length, &request)) answer(&out, &request);
        else say(&out, "{\"error\":\"the request is not JSON\"}\n");
        fwrite(out.bytes, 1, out.length, stdout);
        fflush(stdout);
        toyspec_free(&request);
        free(out.bytes);
    }
    free(line);
    return 0;
}

static struct out all_input(void) {
    struct out input = {0};
    char chunk[1 << 16];
    size_t size;
    add(&input, "", 0);
    while ((size = fread(chunk, 1, sizeof chunk, stdin)) > 0) add(&input, chunk, size);
    return input;
}

static int write_once(const char *role, const char *profile, struct out input) {
    struct toyspec_sequence sequence = {0};
    struct toyspec_sequence *kept = keeps_order(role, profile) ? &sequence : NULL;
    struct toyspec_buffer lines = {0};
    const char *refused = NULL;
    for (char *at = input.bytes, *end = input.bytes + input.length; at < end && !refused;) {
        char *feed = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((feed ? feed : end) - at);
        struct toyspec_value record;
        if (toyspec_parse(at, length, &record)) refused = write_tagged(profile, kept, &record, &lines);
        else refused = "a record is not JSON";
        toyspec_free(&record);
        at += length + 1;
    }
    if (refused) fprintf(stderr, "%s\n", refused);
    else fwrite(lines.bytes, 1, lines.length, stdout);
    free(lines.bytes);
    return refused ? 1 : 0;
}

static int answer_once(int count, char **arguments) {
    struct toyspec_options options = {0};
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(arguments[i], "--mode") == 0) options.mode = arguments[i + 1];
        if (strcmp(arguments[i], "--profile") == 0) options.profile = arguments[i + 1];
        if (strcmp(arguments[i], "--name") == 0) options.name = arguments[i + 1];
        if (strcmp(arguments[i], "--max-line-bytes") == 0) options.max_line_bytes = strtoul(arguments[i + 1], NULL, 10);
    }
    struct out input = all_input(), out = {0};
    int status = 0;
    if (strcmp(arguments[0], "reader") == 0) {
        say(&out, "{");
        status = answer_reader(&out, &options, input.bytes, input.length) ? 0 : 1;
        say(&out, "}\n");
        fwrite(out.bytes, 1, out.length, stdout);
    } else status = write_once(arguments[0], options.profile, input);
    free(input.bytes);
    free(out.bytes);
    return status;
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--hello") == 0) return puts(hello) < 0;
    if (count == 2 && strcmp(arguments[1], "--lines") == 0) return answer_lines();
    if (count >= 3 && strcmp(arguments[1], "--oneshot") == 0) return answer_once(count - 2, arguments + 2);
    fputs("usage: adapter --hello | --lines | --oneshot ROLE [--option value ...]\n", stderr);
    return 2;
}
