/* What has to hold for any bytes, for libFuzzer: the reader in every mode, views, what it reads written again, and a writer
 * that finds the bytes as the stream of its run. Built with sanitizers, so that no read or write leaves its bounds. */

#include "toyspec.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEMAND(fact) \
    do { \
        if (!(fact)) { \
            fprintf(stderr, "does not hold: %s\n", #fact); \
            abort(); \
        } \
    } while (0)

struct seen {
    const char *profile;
    uint64_t count, end;
};

static char folder[200], run[210], stream[230];

static void begin(void) {
    const char *temporary = getenv("TMPDIR");
    if (stream[0]) return;
    snprintf(folder, sizeof folder, "%.150s/toyspec-fuzz-XXXXXX", temporary ? temporary : "/tmp");
    DEMAND(mkdtemp(folder));
    snprintf(run, sizeof run, "%s/run", folder);
    DEMAND(mkdir(run, 0700) == 0);
    snprintf(stream, sizeof stream, "%s/events.jsonl", run);
}

static void put(const uint8_t *data, size_t size) {
    int file = open(stream, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    DEMAND(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

/* A record that is written in canonical form reads back, and is written the same once more. */
static void write_again(const char *profile, const struct toyspec_record *record) {
    struct toyspec_value value, back;
    struct toyspec_buffer one = {0}, other = {0};
    DEMAND(toyspec_parse(record->raw.bytes, record->raw.length, &value));
    if (!toyspec_encode(profile, &value, &one)) {
        DEMAND(one.bytes[one.length - 1] == '\n' && !memchr(one.bytes, '\n', one.length - 1));
        DEMAND(!toyspec_validate_line(one.bytes, one.length - 1, true));
        DEMAND(toyspec_parse(one.bytes, one.length - 1, &back));
        DEMAND(!toyspec_encode(profile, &back, &other));
        DEMAND(one.length == other.length && memcmp(one.bytes, other.bytes, one.length) == 0);
        toyspec_free(&back);
    }
    toyspec_free(&value);
    free(one.bytes);
    free(other.bytes);
}

static void note(void *context, const struct toyspec_record *record) {
    struct seen *seen = context;
    DEMAND(record->offset >= seen->end);
    DEMAND(!toyspec_validate_line(record->raw.bytes, record->raw.length, record->line == 1));
    seen->end = record->offset + record->raw.length + 1;
    seen->count++;
    if (seen->profile) write_again(seen->profile, record);
}

static const char *read_all(const char *mode, struct seen *seen, size_t size, struct toyspec_report *report) {
    struct toyspec_options options = {.mode = mode, .name = "events.jsonl"};
    int file = open(stream, O_RDONLY);
    DEMAND(file >= 0);
    const char *failure = toyspec_read(file, &options, note, seen, report);
    close(file);
    DEMAND(report->committed + report->fragment + report->gap_bytes == size);
    DEMAND(report->records == seen->count && seen->end <= size);
    return failure;
}

static void say_nothing(const char *message) { (void)message; }

/* Writes the record that a resumed stream begins with: run_resume, or run_start where there is no record yet. */
static const char *write_first(struct toyspec_writer *writer) {
    struct toyspec_member resume[4] = {toyspec_member("kind", toyspec_string("run_resume")), toyspec_member("from_step", toyspec_integer(0))};
    struct toyspec_member start[4] = {toyspec_member("kind", toyspec_string("run_start")), toyspec_member("run_id", toyspec_string("run"))};
    struct toyspec_value record = toyspec_object(resume, 2);
    if (!toyspec_write(writer, &record)) return NULL;
    record = toyspec_object(start, 2);
    return toyspec_write(writer, &record);
}

/* A writer that resumes refuses the stream and leaves it, or goes on after its last LF and keeps the rest beside it. */
static void resume(const uint8_t *data, size_t size, const struct toyspec_report *report) {
    struct toyspec_writer *writer = NULL;
    size_t committed = size, room = size + 4096;
    char side_file[270];
    uint8_t *found = malloc(room);
    while (committed && data[committed - 1] != '\n') committed--;
    snprintf(side_file, sizeof side_file, "%s.torn-%zu", stream, committed);
    toyspec_warn = say_nothing;
    const char *refused = toyspec_open(&writer, run, TOYSPEC_RESUME);
    DEMAND(refused || (report->gap_bytes == 0 && report->profile && strcmp(report->profile, "toy/v1") == 0));
    if (!refused) DEMAND(!write_first(writer));
    toyspec_close(writer);
    int file = open(stream, O_RDONLY);
    ssize_t length = read(file, found, room);
    close(file);
    DEMAND(refused ? length == (ssize_t)size : length > (ssize_t)committed && found[length - 1] == '\n');
    DEMAND(memcmp(found, data, refused ? size : committed) == 0);
    if (!refused && committed < size) {
        file = open(side_file, O_RDONLY);
        DEMAND(file >= 0 && read(file, found, room) == (ssize_t)(size - committed));
        DEMAND(memcmp(found, data + committed, size - committed) == 0);
        close(file);
        unlink(side_file);
    }
    free(found);
}

/* The views of any bytes are an object, and the report beside them that of reading. */
static void summarize(const struct toyspec_report *whole) {
    struct toyspec_options options = {.name = "events.jsonl"};
    struct toyspec_report report;
    struct toyspec_value summary;
    int file = open(stream, O_RDONLY);
    DEMAND(!toyspec_summarize(file, &options, &summary, &report));
    DEMAND(summary.type == TOYSPEC_OBJECT && report.records == whole->records && (summary.count > 0) == (report.profile != NULL));
    toyspec_free(&summary);
    close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const modes[] = {"strict", "tail", "prefix"};
    struct toyspec_report whole, report;
    struct seen all = {0}, again = {0};
    begin();
    put(data, size);
    DEMAND(!read_all("salvage", &all, size, &whole));
    again.profile = whole.profile;
    read_all("salvage", &again, size, &report);
    for (int i = 0; i < 3; i++) {
        struct seen some = {0};
        const char *failure = read_all(modes[i], &some, size, &report);
        DEMAND(some.count <= all.count && strcmp(report.state, whole.state) == 0);
        if (i == 0) DEMAND(!failure == (strcmp(whole.state, "complete") == 0));
        if (i == 1) DEMAND(!failure == (whole.gap_bytes == 0));
        if (i == 2) DEMAND(!failure);
    }
    summarize(&whole);
    resume(data, size, &whole);
    return 0;
}
