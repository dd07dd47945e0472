#define TEST_CALLS_ARE_REAL
#include "test_calls.h"

#include "testing.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

int failures;
char directory[64], path[128];
const char start[] = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"run\"}\n";
const char end[] = "{\"kind\":\"run_end\",\"t\":9.0,\"reason\":\"completed\"}\n";
struct calls calls;
int warnings;
char warning[1024];

ssize_t test_write(int descriptor, const void *bytes, size_t length) {
    calls.writes++;
    if (calls.write_error) {
        errno = calls.write_error;
        calls.write_error = 0;
        return -1;
    }
    if (calls.short_write) {
        ssize_t written = write(descriptor, bytes, calls.short_write);
        calls.short_write = 0;
        calls.write_error = ENOSPC;
        if (calls.on_short_write) calls.on_short_write();
        return written;
    }
    return write(descriptor, bytes, length);
}

int test_fsync(int descriptor) {
    calls.syncs++;
    if (calls.on_sync) calls.on_sync(descriptor);
    if (calls.sync_failures > 0) {
        calls.sync_failures--;
        errno = calls.sync_error;
        return -1;
    }
    return fsync(descriptor);
}

int test_flock(int descriptor, int operation) {
    if (calls.lock_error) {
        errno = calls.lock_error;
        return -1;
    }
    int result = flock(descriptor, operation);
    if (calls.on_lock) calls.on_lock();
    return result;
}

int test_clock_gettime(clockid_t clock, struct timespec *now) {
    int result = clock_gettime(clock, now);
    now->tv_sec += (time_t)calls.later;
    return result;
}

static void keep_warning(const char *text) {
    warnings++;
    snprintf(warning, sizeof warning, "%s", text);
}

void fresh(const char *stream) {
    snprintf(directory, sizeof directory, "/tmp/toyspec-test-XXXXXX");
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/events.jsonl", directory);
    calls = (struct calls){0};
    warnings = 0;
    toyspec_warn = keep_warning;
    if (stream) fill_file(path, stream, strlen(stream));
}

void clean(void) {
    char command[256];
    snprintf(command, sizeof command, "rm -r %s", directory);
    CHECK(system(command) == 0);
}

const char *beside(const char *ending) {
    static char name[256];
    snprintf(name, sizeof name, "%s%s", path, ending);
    return name;
}

void fill_file(const char *name, const char *bytes, size_t length) {
    FILE *file = fopen(name, "wb");
    CHECK(file && fwrite(bytes, 1, length, file) == length);
    if (file) fclose(file);
}

const char *contents(const char *name) {
    static char content[1 << 19];
    FILE *file = fopen(name, "rb");
    size_t size = file ? fread(content, 1, sizeof content - 1, file) : 0;
    content[size] = 0;
    if (file) fclose(file);
    return content;
}

bool exists(const char *name) { return access(name, F_OK) == 0; }

size_t names_in(const char *folder) {
    size_t count = 0;
    DIR *opened = opendir(folder);
    for (struct dirent *entry = opened ? readdir(opened) : NULL; entry; entry = readdir(opened))
        if (entry->d_name[0] != '.') count++;
    if (opened) closedir(opened);
    return count;
}

static void ignore(void *context, const struct toyspec_record *record) {
    (void)context;
    (void)record;
}

size_t records_in(const char *name, const char *state) {
    struct toyspec_report report;
    CHECK(toyspec_read_file(name, NULL, ignore, NULL, &report) == NULL);
    CHECK(report.state && strcmp(report.state, state) == 0);
    return report.records;
}

const char *write_start(struct toyspec_writer *writer, const char *id) {
    struct toyspec_member members[4] = {toyspec_member("kind", toyspec_string("run_start")), toyspec_member("run_id", toyspec_string(id))};
    struct toyspec_value record = toyspec_object(members, 2);
    return toyspec_write(writer, &record);
}

const char *write_resume(struct toyspec_writer *writer, int64_t from_step) {
    struct toyspec_member members[] = {toyspec_member("kind", toyspec_string("run_resume")), toyspec_member("from_step", toyspec_integer(from_step))};
    struct toyspec_value record = toyspec_object(members, 2);
    return toyspec_write(writer, &record);
}

struct toyspec_writer *started(void) {
    struct toyspec_writer *writer;
    fresh(NULL);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_REPLACE) == NULL);
    CHECK(write_start(writer, "run") == NULL);
    return writer;
}
