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
    "\"revisions\":[\"1.4\"],\"roles\":[\"reader\",\"summarizer\",\"writer\",\"canonical-writer\"],\"lines\":true,"
    "\"capabilities\":[\"line_limit\",\"bundle\",\"ranks\",\"session\",\"media\",\"own_kinds\"]}}";

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
    struct toyspec_text path[TOYSPEC_MAX_DEPTH + 1];
    size_t depth;
};

static void say_integer(struct out *out, const struct toyspec_value *value) {
    char text[32];
    say(out, "{\"int\":\"");
    if (!value->text.bytes) add(out, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)value->integer));
    else if (is_word(value->text, "-0")) say(out, "0");
    else add(out, value->text.bytes, value->text.length);
    say(out, "\"}");
}

static void say_number(struct out *out, const struct toyspec_value *value, struct place *place) {
    int width = toyspec_number_width(place->profile, place->record, place->path, place->depth);
    char text[32];
    if (width == 0 && value->type == TOYSPEC_INTEGER) {
        say_integer(out, value);
        return;
    }
    if (width == 32 && fabs(value->number) < TOYSPEC_BINARY32_LIMIT) {
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
        place->path[place->depth++] = member->key;
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

/* ---- Reading ---- */

struct records {
    struct out *out;
    struct place place;
    size_t count;
};

/* What is asked of a reader or summarizer: a stream, or the path of a bundle. */
struct question {
    struct toyspec_options options;
    const char *directory;
    const char *bytes;
    size_t length;
};

static void take(void *data, const struct toyspec_record *record) {
    struct records *records = data;
    records->place.profile = record->profile ? record->profile : "";
    records->place.record = &record->value;
    if (records->count++) say(records->out, ",");
    say_value(records->out, &record->value, &records->place);
}

/* Returns a file with the bytes of the stream. */
static FILE *stream_of(const struct question *question) {
    FILE *file = checked(tmpfile());
    if (fwrite(question->bytes, 1, question->length, file) != question->length || fflush(file) != 0) exit(3);
    rewind(file);
    return file;
}

static void say_profile(struct out *out, const char *profile, const char *state) {
    say(out, "\"profile\":");
    if (profile) say_string(out, (struct toyspec_text){profile, strlen(profile)});
    else say(out, "null");
    say(out, ",\"state\":\"");
    say(out, state);
    say(out, "\"");
}

static void say_failure(struct out *out, const char *reason) {
    say(out, "\"error\":");
    say_string(out, (struct toyspec_text){reason, strlen(reason)});
}

static void say_gaps(struct out *out, const struct toyspec_report *report) {
    say(out, ",\"gaps\":[");
    for (size_t i = 0; i < report->gap_count; i++) {
        say_count(out, i ? ",{\"offset\":" : "{\"offset\":", report->gaps[i].offset);
        say_count(out, ",\"length\":", report->gaps[i].length);
        say(out, ",\"reason\":\"");
        say(out, report->gaps[i].reason);
        say(out, "\"}");
    }
    say(out, "]");
}

static void say_ranks(struct out *out, const char *directory) {
    uint32_t *ranks;
    size_t count;
    say(out, ",\"ranks\":[");
    if (toyspec_ranks(directory, &ranks, &count)) exit(3);
    for (size_t i = 0; i < count; i++) say_count(out, i ? "," : "", ranks[i]);
    say(out, "]");
    free(ranks);
}

static bool answer_reader(struct out *out, const struct question *question) {
    struct out text = {0};
    struct toyspec_report report;
    struct records records = {&text, {0}, 0};
    const char *refused;
    char path[4096];
    add(&text, "", 0);
    if (question->directory) {
        const char *name = question->options.name;
        snprintf(path, sizeof path, name ? "%s/%s" : "%s", question->directory, name);
        refused = toyspec_read_file(path, &question->options, take, &records, &report);
    } else {
        FILE *file = stream_of(question);
        refused = toyspec_read(fileno(file), &question->options, take, &records, &report);
        fclose(file);
    }
    if (!report.state) {
        say_failure(out, refused);
        free(text.bytes);
        return false;
    }
    say(out, refused ? "\"outcome\":\"fails\"," : "\"outcome\":\"read\",");
    say_profile(out, report.profile, report.state);
    say(out, ",\"records\":[");
    add(out, text.bytes, text.length);
    say_count(out, "],\"count\":", report.records);
    say_count(out, ",\"committed\":", report.committed);
    say_count(out, ",\"fragment\":", report.fragment);
    say_count(out, ",\"gap_bytes\":", report.gap_bytes);
    say_gaps(out, &report);
    if (question->directory && !question->options.name) say_ranks(out, question->directory);
    if (refused && report.gap_count) {
        say_count(out, ",\"error\":{\"line\":", report.gaps[0].line);
        say_count(out, ",\"offset\":", report.gaps[0].offset);
        say(out, ",\"reason\":\"");
        say(out, report.gaps[0].reason);
        say(out, "\"}");
    }
    free(text.bytes);
    return !refused;
}

/* Writes a view as a tagged value; with narrow, its numbers are binary32. */
static void say_view(struct out *out, const struct toyspec_value *value, bool narrow) {
    char text[32];
    if (value->type == TOYSPEC_INTEGER) say_integer(out, value);
    else if (value->type == TOYSPEC_FLOAT) {
        say(out, narrow ? "{\"f32\":\"" : "{\"float\":\"");
        add(out, text, narrow ? toyspec_binary32_text((float)value->number, text) : toyspec_binary64_text(value->number, text));
        say(out, "\"}");
    } else if (value->type == TOYSPEC_STRING) say_string(out, value->text);
    else if (value->type == TOYSPEC_NULL) say(out, "null");
    else {
        bool object = value->type == TOYSPEC_OBJECT, wrapped = object && value->count == 1 && is_tag(value->members[0].key);
        say(out, wrapped ? "{\"object\":{" : object ? "{" : "[");
        for (size_t i = 0; i < value->count; i++) {
            if (i) say(out, ",");
            if (object) {
                say_string(out, value->members[i].key);
                say(out, ":");
            }
            bool loss = object && value->members[i].key.length > 4 && strstr(value->members[i].key.bytes, "loss");
            say_view(out, object ? &value->members[i].value : &value->items[i], object ? narrow && loss : narrow);
        }
        say(out, wrapped ? "}}" : object ? "}" : "]");
    }
}

static bool answer_summarizer(struct out *out, const struct question *question) {
    struct toyspec_report report;
    struct toyspec_value summary;
    const char *failed;
    if (question->directory) failed = toyspec_summarize_file(question->directory, &question->options, &summary, &report);
    else {
        FILE *file = stream_of(question);
        failed = toyspec_summarize(fileno(file), &question->options, &summary, &report);
        fclose(file);
    }
    if (failed) say_failure(out, failed);
    else {
        say_profile(out, report.profile, report.state);
        say(out, ",\"summary\":");
        say_view(out, &summary, report.profile && strcmp(report.profile, "metrics/v1") == 0);
    }
    toyspec_free(&summary);
    return !failed;
}

/* ---- Writing ---- */

/* What the records of one request are written to. */
struct target {
    const char *profile;
    bool keeps_order; /* a plain writer keeps to the order of a toy/v1 stream; a canonical writer is asked for single records too */
    struct toyspec_sequence sequence;
    struct toyspec_buffer lines;
    struct toyspec_writer *writer; /* NULL, or what appends to the stream in a directory of its own */
    char directory[4096], path[4200];
};

static const char *open_target(struct target *target, const char *role, const char *profile) {
    const char *temporary = getenv("TMPDIR");
    bool plain = strcmp(role, "writer") == 0, toy = profile && strcmp(profile, "toy/v1") == 0;
    memset(target, 0, sizeof *target);
    target->profile = profile;
    target->keeps_order = plain && toy;
    if (!plain || toy) return NULL;
    snprintf(target->directory, sizeof target->directory, "%s/adapter-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(target->directory)) return "no temporary directory can be made";
    snprintf(target->path, sizeof target->path, "%s/stream.jsonl", target->directory);
    return toyspec_append(&target->writer, target->path, profile);
}

/* Appends the canonical line of a tagged record; returns why not. */
static const char *write_tagged(struct target *target, struct toyspec_value *record) {
    if (!untag(record)) return "not a tagged record";
    if (target->writer) return toyspec_write(target->writer, record);
    const char *refused = target->keeps_order ? toyspec_admit(&target->sequence, record) : NULL;
    if (!refused) refused = toyspec_encode(target->profile, record, &target->lines);
    if (!refused && target->keeps_order) toyspec_note(&target->sequence, record);
    return refused;
}

/* Releases the stream, and takes its bytes as the lines. */
static void close_target(struct target *target) {
    struct toyspec_buffer *lines = &target->lines;
    toyspec_close(target->writer);
    FILE *file = *target->path ? fopen(target->path, "rb") : NULL;
    for (size_t size = 1; file && size > 0; lines->length += size) {
        lines->bytes = checked(realloc(lines->bytes, lines->length + (1 << 16)));
        size = fread(lines->bytes + lines->length, 1, 1 << 16, file);
    }
    if (file) fclose(file);
    if (*target->path) unlink(target->path);
    if (*target->directory) rmdir(target->directory);
}

static const char *member_text(const struct toyspec_value *request, const char *key) {
    const struct toyspec_value *value = toyspec_get(request, key);
    return value && value->type == TOYSPEC_STRING ? value->text.bytes : NULL;
}

static void say_refusal(struct out *out, const char *reason) {
    say(out, "\"outcome\":\"refused\",\"reason\":");
    say_string(out, (struct toyspec_text){reason, strlen(reason)});
}

static void answer_writer(struct out *out, const struct toyspec_value *request) {
    const struct toyspec_value *records = toyspec_get(request, "records");
    const char *profile = member_text(request, "profile");
    struct target target;
    const char *refused = open_target(&target, member_text(request, "role"), profile);
    for (size_t i = 0; records && i < records->count && !refused; i++) refused = write_tagged(&target, &records->items[i]);
    if (refused) say_refusal(out, refused);
    close_target(&target);
    if (!refused) {
        say(out, "\"outcome\":\"written\",\"stream\":\"");
        say_base64(out, target.lines.bytes, target.lines.length);
        say(out, "\"");
    }
    free(target.lines.bytes);
}

/* The writers that stay open between two requests. */
static struct held {
    char *directory;
    struct toyspec_writer *writer;
} held[64];

static bool hold(const char *directory, struct toyspec_writer *writer) {
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (!held[i].writer) {
            held[i] = (struct held){checked(strdup(directory)), writer};
            return true;
        }
    return false;
}

static void answer_release(struct out *out, const char *directory) {
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (held[i].writer && strcmp(held[i].directory, directory) == 0) {
            toyspec_close(held[i].writer);
            free(held[i].directory);
            held[i] = (struct held){NULL, NULL};
            say(out, "\"outcome\":\"written\"");
            return;
        }
    say(out, "\"error\":\"no writer is held there\"");
}

static const char *open_session(struct toyspec_writer **writer, const char *directory, const char *profile, const char *exist) {
    char path[4096];
    *writer = NULL;
    if (strcmp(exist, "append") != 0)
        return toyspec_open(writer, directory, strcmp(exist, "fail") == 0     ? TOYSPEC_FAIL
                                               : strcmp(exist, "resume") == 0 ? TOYSPEC_RESUME
                                                                              : TOYSPEC_REPLACE);
    snprintf(path, sizeof path, "%s/%s", directory, strcmp(profile, "metrics/v1") == 0 ? "metrics.jsonl" : "events.jsonl");
    return toyspec_append(writer, path, profile);
}

/* Leaves the run as it is asked to. */
static const char *leave_session(struct toyspec_writer *writer, const struct toyspec_value *request, const char *directory) {
    const char *end = member_text(request, "end");
    if (strcmp(end, "held") == 0) return hold(directory, writer) ? NULL : "too many writers are held";
    if (strcmp(end, "killed") != 0) return toyspec_end(writer, strcmp(end, "closed") == 0 ? "completed" : end, member_text(request, "error"));
    toyspec_close(writer);
    return NULL;
}

/* Writes the records into a directory. */
static void answer_session(struct out *out, const struct toyspec_value *request) {
    const struct toyspec_value *records = toyspec_get(request, "records");
    const char *directory = member_text(request, "directory"), *profile = member_text(request, "profile"), *exist = member_text(request, "exist");
    struct toyspec_writer *writer;
    if (strcmp(profile, "toy/v1") != 0 && strcmp(exist, "append") != 0) {
        say(out, "\"untestable\":\"streams of metrics/v1 and kaun/v1 are only appended to\"");
        return;
    }
    const char *refused = open_session(&writer, directory, profile, exist);
    const struct toyspec_value *media = toyspec_get(request, "media");
    size_t next = 0;
    for (size_t i = 0; i < records->count && !refused; i++) {
        struct toyspec_value *record = &records->items[i];
        bool good = untag(record);
        const struct toyspec_value *kind = good ? toyspec_get(record, "kind") : NULL;
        if (kind && kind->type == TOYSPEC_STRING && is_word(kind->text, "media") && media && next < media->count) {
            struct out content = from_base64(media->items[next++].text);
            refused = toyspec_write_media(writer, record, content.bytes, content.length);
            free(content.bytes);
        } else refused = good ? toyspec_write(writer, record) : "not a tagged record";
        if (refused) toyspec_close(writer);
    }
    if (!refused) refused = leave_session(writer, request, directory);
    if (refused) say_refusal(out, refused);
    else say(out, "\"outcome\":\"written\"");
}

/* ---- Requests ---- */

static void answer_stream(struct out *out, const struct toyspec_value *request, const char *role) {
    const struct toyspec_value *limit = toyspec_get(request, "max_line_bytes"), *encoded = toyspec_get(request, "stream");
    struct out stream = encoded ? from_base64(encoded->text) : (struct out){0};
    struct question question = {
        {member_text(request, "mode"), member_text(request, "profile"), member_text(request, "name"), limit ? (size_t)limit->number : 0},
        member_text(request, "directory"), stream.bytes, stream.length};
    if (strcmp(role, "reader") == 0) answer_reader(out, &question);
    else answer_summarizer(out, &question);
    free(stream.bytes);
}

static void answer(struct out *out, const struct toyspec_value *request) {
    const struct toyspec_value *id = toyspec_get(request, "id");
    const char *role = member_text(request, "role");
    say(out, "{");
    if (id) {
        say(out, "\"id\":");
        add(out, id->text.bytes, id->text.length);
        say(out, ",");
    }
    if (role && (strcmp(role, "reader") == 0 || strcmp(role, "summarizer") == 0)) answer_stream(out, request, role);
    else if (member_text(request, "release")) answer_release(out, member_text(request, "release"));
    else if (role && strstr(role, "writer") && toyspec_get(request, "records")) {
        if (member_text(request, "directory")) answer_session(out, request);
        else answer_writer(out, request);
    } else say(out, "\"untestable\":\"no such role\"");
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
    struct target target;
    const char *refused = open_target(&target, role, profile);
    for (char *at = input.bytes, *end = input.bytes + input.length; at < end && !refused;) {
        char *feed = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((feed ? feed : end) - at);
        struct toyspec_value record;
        if (toyspec_parse(at, length, &record)) refused = write_tagged(&target, &record);
        else refused = "a record is not JSON";
        toyspec_free(&record);
        at += length + 1;
    }
    if (refused) fprintf(stderr, "%s\n", refused);
    close_target(&target);
    if (!refused) fwrite(target.lines.bytes, 1, target.lines.length, stdout);
    free(target.lines.bytes);
    return refused ? 1 : 0;
}

/* Answers a session whose members are options and whose records are lines; 77 is untestable: see PROTOCOL.md. */
static int session_once(int count, char **arguments, struct out input) {
    struct out request = {0}, reply = {0};
    say(&request, "{");
    for (int i = 1; i + 1 < count; i += 2) {
        say_string(&request, (struct toyspec_text){arguments[i] + 2, strlen(arguments[i] + 2)});
        say(&request, ":");
        say_string(&request, (struct toyspec_text){arguments[i + 1], strlen(arguments[i + 1])});
        say(&request, ",");
    }
    say(&request, "\"records\":[");
    for (size_t i = 0; i + 1 < input.length; i++) add(&request, input.bytes[i] == '\n' ? "," : input.bytes + i, 1);
    say(&request, "]}");
    struct toyspec_value parsed;
    if (toyspec_parse(request.bytes, request.length, &parsed)) answer_session(&reply, &parsed);
    else say_refusal(&reply, "a record is not JSON");
    add(&reply, "", 1);
    toyspec_free(&parsed);
    free(request.bytes);
    int status = strstr(reply.bytes, "\"untestable\":") == reply.bytes ? 77 : strcmp(reply.bytes, "\"outcome\":\"written\"") != 0;
    if (status) fprintf(stderr, "%s\n", reply.bytes);
    free(reply.bytes);
    return status;
}

static int answer_once(int count, char **arguments) {
    struct question question = {0};
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(arguments[i], "--mode") == 0) question.options.mode = arguments[i + 1];
        if (strcmp(arguments[i], "--profile") == 0) question.options.profile = arguments[i + 1];
        if (strcmp(arguments[i], "--name") == 0) question.options.name = arguments[i + 1];
        if (strcmp(arguments[i], "--max-line-bytes") == 0) question.options.max_line_bytes = strtoul(arguments[i + 1], NULL, 10);
        if (strcmp(arguments[i], "--directory") == 0) question.directory = arguments[i + 1];
    }
    struct out input = all_input(), out = {0};
    bool reads = strcmp(arguments[0], "reader") == 0;
    int status;
    question.bytes = input.bytes;
    question.length = input.length;
    if (reads || strcmp(arguments[0], "summarizer") == 0) {
        say(&out, "{");
        status = (reads ? answer_reader(&out, &question) : answer_summarizer(&out, &question)) ? 0 : 1;
        say(&out, "}\n");
        fwrite(out.bytes, 1, out.length, stdout);
    } else if (question.directory) status = session_once(count, arguments, input);
    else status = write_once(arguments[0], question.options.profile, input);
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
