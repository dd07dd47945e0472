/* Tests of what the corpus cannot show: numbers in bulk, files, locks and memory. `make test` runs them under sanitizers. */
#define _POSIX_C_SOURCE 200809L

#include "testing.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
    CHECK(write_start(writer, "run") == NULL);
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
    CHECK(write_resume(writer, 2) == NULL);
    CHECK(toyspec_step(writer, -1, 1, 1, 1) != NULL);
    CHECK(records_in(path, "torn") == 2);
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
        if (writer && cases[i].exist == TOYSPEC_REPLACE) CHECK(write_start(writer, "run") == NULL);
        CHECK(strcmp(contents(beside(cases[i].exist == TOYSPEC_REPLACE ? ".prev" : "")), cases[i].stream) == 0);
        toyspec_close(writer);
        clean();
    }
    struct toyspec_writer *writer;
    char complete[256];
    for (int torn = 0; torn < 2; torn++) {
        snprintf(complete, sizeof complete, "%s%s%s", start, end, torn ? "{" : "");
        fresh(complete);
        /* A run goes on after its end. */
        CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
        CHECK(toyspec_step(writer, 9, 1, 1, 1) != NULL);
        struct toyspec_member members[] = {toyspec_member("kind", toyspec_string("run_resume")), toyspec_member("from_step", toyspec_integer(0))};
        struct toyspec_value record = toyspec_object(members, 2);
        CHECK(toyspec_write(writer, &record) == NULL);
        CHECK(toyspec_end(writer, "completed", NULL) == NULL);
        snprintf(complete, sizeof complete, "%s%s{\"kind\":\"run_resume\"", start, end);
        CHECK(strncmp(contents(path), complete, strlen(complete)) == 0);
        clean();
    }
}

static void test_fragment_is_moved(void) {
    struct toyspec_writer *writer, *second;
    char torn[256];
    snprintf(torn, sizeof torn, "%s{\"kind\":\"st", start);
    fresh(torn);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
    CHECK(toyspec_open(&second, directory, TOYSPEC_RESUME) != NULL);
    CHECK(write_resume(writer, 0) == NULL);
    char ending[32];
    snprintf(ending, sizeof ending, ".torn-%zu", strlen(start));
    CHECK(strcmp(contents(beside(ending)), "{\"kind\":\"st") == 0);
    toyspec_close(writer);
    CHECK(records_in(path, "torn") == 2);
    clean();
}

static void test_forked_child_does_not_write(void) {
    struct toyspec_writer *writer;
    fresh(start);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
    pid_t child = fork();
    if (child == 0) {
        bool good = toyspec_step(writer, 1, 1, 1, 1) != NULL;
        toyspec_close(writer);
        _exit(good ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    toyspec_close(writer);
    clean();
}

static const char *encoded(struct toyspec_value value) {
    struct toyspec_member members[] = {toyspec_member("kind", toyspec_string("step")), toyspec_member("t", toyspec_number(1)),
                                       toyspec_member("step", toyspec_integer(1)), toyspec_member("own", value)};
    struct toyspec_value record = toyspec_object(members, 4);
    struct toyspec_buffer line = {0};
    const char *refused = toyspec_encode("toy/v1", &record, &line);
    free(line.bytes);
    return refused;
}

static void test_invalid_input_is_refused(void) {
    char many[401];
    const char *const digits[] = {"007", "", "-", "+1", "1e3", "0x1", "00", "1 ", many};
    memset(many, '9', 400);
    many[400] = 0;
    for (size_t i = 0; i < sizeof digits / sizeof *digits; i++) {
        struct toyspec_value value = {.type = TOYSPEC_INTEGER, .text = {digits[i], strlen(digits[i])}};
        CHECK(encoded(value) != NULL);
    }
    struct toyspec_value whole = {.type = TOYSPEC_INTEGER, .text = {many, 300}};
    CHECK(encoded(whole) == NULL);
    CHECK(encoded(toyspec_string("\xff")) != NULL && encoded(toyspec_string("\xed\xa0\x80")) != NULL);
    struct toyspec_member twice[] = {toyspec_member("a", toyspec_null()), toyspec_member("a", toyspec_null())};
    CHECK(encoded(toyspec_object(twice, 2)) != NULL);
    struct toyspec_member wrong[] = {toyspec_member("\xff", toyspec_null())};
    CHECK(encoded(toyspec_object(wrong, 1)) != NULL);
}

static void test_long_record_is_one_write(void) {
    static char text[300001];
    struct toyspec_writer *writer = started();
    memset(text, 'a', sizeof text - 1);
    struct toyspec_member members[4] = {toyspec_member("kind", toyspec_string("note")), toyspec_member("text", toyspec_string(text))};
    struct toyspec_value record = toyspec_object(members, 2);
    int before = calls.writes;
    CHECK(toyspec_write(writer, &record) == NULL && calls.writes == before + 1);
    toyspec_close(writer);
    CHECK(records_in(path, "torn") == 2);
    clean();
}

static void test_end_names_the_last_train_step(void) {
    struct toyspec_writer *writer = started();
    CHECK(toyspec_step(writer, 1, 2.5, NAN, NAN) == NULL);
    CHECK(toyspec_step(writer, 2, NAN, NAN, NAN) == NULL);
    CHECK(toyspec_end(writer, "errored", "no memory") == NULL);
    CHECK(strstr(contents(path), "\"reason\":\"errored\",\"final_step\":2,\"final_loss\":null,\"error\":\"no memory\"}\n") != NULL);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_REPLACE) == NULL);
    CHECK(toyspec_end(writer, "completed", NULL) == NULL); /* a run that has not begun has no end */
    CHECK(records_in(path, "complete") == 4);
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
    test_fragment_is_moved();
    test_forked_child_does_not_write();
    test_long_line_is_counted();
    test_invalid_input_is_refused();
    test_long_record_is_one_write();
    test_end_names_the_last_train_step();
    run_reading_tests();
    run_fault_tests();
    if (failures) printf("%d checks failed\n", failures);
    else puts("every check passed");
    return failures > 0;
}
