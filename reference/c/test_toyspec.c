/* Tests of what the corpus cannot show: numbers in bulk, files, locks and memory. `make test` runs them under sanitizers. */
#define _POSIX_C_SOURCE 200809L

#include "toyspec.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            failures++;                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                           \
    } while (0)

static const char start[] = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"run\"}\n";
static const char end[] = "{\"kind\":\"run_end\",\"t\":9.0,\"reason\":\"completed\"}\n";

static char directory[64], path[128], other[160], content[1 << 16];

static void fresh(const char *stream) {
    snprintf(directory, sizeof directory, "/tmp/toyspec-test-XXXXXX");
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/events.jsonl", directory);
    if (!stream) return;
    FILE *file = fopen(path, "wb");
    fputs(stream, file);
    fclose(file);
}

static const char *contents(const char *name) {
    FILE *file = fopen(name, "rb");
    size_t size = file ? fread(content, 1, sizeof content - 1, file) : 0;
    content[size] = 0;
    if (file) fclose(file);
    return content;
}

static void clean(void) {
    char command[256];
    snprintf(command, sizeof command, "rm -r %s", directory);
    CHECK(system(command) == 0);
}

static void ignore(void *context, const struct toyspec_record *record) {
    (void)context;
    (void)record;
}

static void test_numbers_read_back(void) {
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 100000; i++) {
        double number;
        float narrow;
        char text[32];
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        memcpy(&number, &bits, sizeof number);
        memcpy(&narrow, &bits, sizeof narrow);
        if (isfinite(number)) {
            CHECK(toyspec_binary64_text(number, text) == strlen(text));
            CHECK(strtod(text, NULL) == number);
        }
        if (isfinite(narrow)) {
            CHECK(toyspec_binary32_text(narrow, text) == strlen(text));
            CHECK((float)strtod(text, NULL) == narrow);
        }
    }
}

static void test_binary32_reads_back_by_way_of_binary64(void) {
    /* The binary64 value nearest to 7.038531e-26 is the middle between these two. */
    const uint32_t bits[] = {0x15ae43fd, 0x15ae43fe};
    const char *const expected[] = {"7.0385307e-26", "7.038531e-26"};
    for (int i = 0; i < 2; i++) {
        float narrow;
        char text[32];
        memcpy(&narrow, &bits[i], sizeof narrow);
        toyspec_binary32_text(narrow, text);
        CHECK(strcmp(text, expected[i]) == 0);
    }
}

static void test_powers_of_two_are_shortest(void) {
    /* 2^-44 is one of the powers whose shortest digits are not those that printf rounds to. */
    char text[32];
    toyspec_binary64_text(ldexp(1, -44), text);
    CHECK(strcmp(text, "5.684341886080802e-14") == 0);
    toyspec_binary64_text(9007199254740992.0, text);
    CHECK(strcmp(text, "9007199254740992.0") == 0);
    toyspec_binary32_text(0.1f, text);
    CHECK(strcmp(text, "0.1") == 0);
}

static void test_directories_are_made(void) {
    struct toyspec_writer *writer;
    char run[96];
    fresh(NULL);
    snprintf(run, sizeof run, "%s/runs/a", directory);
    CHECK(toyspec_open(&writer, run, TOYSPEC_FAIL) == NULL);
    toyspec_close(writer);
    snprintf(run, sizeof run, "%s/runs/a/events.jsonl/b", directory);
    CHECK(toyspec_open(&writer, run, TOYSPEC_FAIL) != NULL && writer == NULL);
    clean();
}

static void test_step_and_end(void) {
    struct toyspec_writer *writer;
    fresh(NULL);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_REPLACE) == NULL);
    struct toyspec_member first[] = {toyspec_member("kind", toyspec_string("run_start")), toyspec_member("run_id", toyspec_string("run")),
                                     toyspec_member("schema", toyspec_string("toy/v1"))};
    struct toyspec_value record = toyspec_object(first, 3);
    CHECK(toyspec_write(writer, &record) == NULL);
    CHECK(toyspec_step(writer, 1, NAN, 0.0003, NAN) == NULL);
    struct toyspec_member last[] = {toyspec_member("kind", toyspec_string("run_end")), toyspec_member("reason", toyspec_string("completed"))};
    record = toyspec_object(last, 2);
    CHECK(toyspec_write(writer, &record) == NULL);
    CHECK(toyspec_step(writer, 2, 1, 1, 1) != NULL);
    toyspec_close(writer);
    CHECK(strstr(contents(path), ",\"step\":1,\"loss\":null,\"lr\":0.0003}\n") != NULL);
    struct toyspec_report report;
    int descriptor = open(path, O_RDONLY);
    CHECK(toyspec_read(descriptor, &(struct toyspec_options){.mode = "strict"}, ignore, NULL, &report) == NULL);
    CHECK(report.records == 3);
    close(descriptor);
    clean();
}

static void test_refused_record_changes_nothing(void) {
    struct toyspec_writer *writer;
    fresh(NULL);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_FAIL) == NULL);
    CHECK(toyspec_step(writer, 1, 1, 1, 1) != NULL); /* no run_start yet */
    CHECK(*contents(path) == 0);
    toyspec_close(writer);
    clean();
    fresh(start);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
    CHECK(toyspec_step(writer, -1, 1, 1, 1) != NULL);
    CHECK(strcmp(contents(path), start) == 0);
    CHECK(toyspec_step(writer, 3, 1, 1, 1) == NULL);
    CHECK(toyspec_step(writer, 3, 1, 1, 1) != NULL);
    toyspec_close(writer);
    clean();
}

static void test_existing_streams(void) {
    static const struct {
        const char *stream;
        enum toyspec_exist exist;
        bool opens;
    } cases[] = {{start, TOYSPEC_FAIL, false}, {start, TOYSPEC_RESUME, true}, {start, TOYSPEC_REPLACE, true}, {"{\n", TOYSPEC_RESUME, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct toyspec_writer *writer;
        fresh(cases[i].stream);
        CHECK((toyspec_open(&writer, directory, cases[i].exist) == NULL) == cases[i].opens);
        snprintf(other, sizeof other, "%s%s", path, cases[i].exist == TOYSPEC_REPLACE ? ".prev" : "");
        CHECK(strcmp(contents(other), cases[i].stream) == 0);
        toyspec_close(writer);
        clean();
    }
    struct toyspec_writer *writer;
    char complete[256];
    snprintf(complete, sizeof complete, "%s%s", start, end);
    fresh(complete);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) != NULL);
    clean();
}

static void test_fragment_is_set_aside(void) {
    struct toyspec_writer *writer, *second;
    char torn[256];
    snprintf(torn, sizeof torn, "%s{\"kind\":\"st", start);
    fresh(torn);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
    CHECK(toyspec_open(&second, directory, TOYSPEC_RESUME) != NULL);
    snprintf(other, sizeof other, "%s.torn-%zu", path, strlen(start));
    CHECK(strcmp(contents(other), "{\"kind\":\"st") == 0);
    CHECK(strcmp(contents(path), start) == 0);
    toyspec_close(writer);
    clean();
}

static void test_forked_child_does_not_write(void) {
    struct toyspec_writer *writer;
    fresh(start);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
    pid_t child = fork();
    if (child == 0) _exit(toyspec_step(writer, 1, 1, 1, 1) == NULL);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    toyspec_close(writer);
    clean();
}

static void test_long_line_is_counted(void) {
    int ends[2];
    struct toyspec_report report;
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], "xxxxxxxxxxxx\n{}\n", 16) == 16);
    close(ends[1]);
    struct toyspec_options options = {.mode = "salvage", .max_line_bytes = 10};
    CHECK(toyspec_read(ends[0], &options, ignore, NULL, &report) == NULL);
    CHECK(report.gap_bytes == 13 && report.records == 1 && strcmp(report.gaps[0].reason, "line-too-long") == 0);
    close(ends[0]);
}

int main(void) {
    test_numbers_read_back();
    test_binary32_reads_back_by_way_of_binary64();
    test_powers_of_two_are_shortest();
    test_directories_are_made();
    test_step_and_end();
    test_refused_record_changes_nothing();
    test_existing_streams();
    test_fragment_is_set_aside();
    test_forked_child_does_not_write();
    test_long_line_is_counted();
    printf("%d passed, %d failed\n", 10 - (failures > 0), failures > 0);
    return failures > 0;
}
