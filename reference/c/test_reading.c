/* Tests of reading: integers by their value, profiles, views. */
#define _POSIX_C_SOURCE 200809L

#include "testing.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char found[512];

/* Notes the members step and own of a record. */
static void note_members(void *context, const struct toyspec_record *record) {
    const char *const *names = context;
    found[0] = 0;
    for (; *names; names++) {
        const struct toyspec_value *value = toyspec_get(&record->value, *names);
        size_t length = strlen(found);
        if (value->type == TOYSPEC_ARRAY) value = &value->items[0];
        if (value->text.bytes) snprintf(found + length, sizeof found - length, "%d:%.*s ", value->type, (int)value->text.length, value->text.bytes);
        else snprintf(found + length, sizeof found - length, "%d:%lld ", value->type, (long long)value->integer);
    }
}

static void read_text(const char *stream, const struct toyspec_options *options, toyspec_each *each, void *context, struct toyspec_report *report) {
    FILE *file = tmpfile();
    fputs(stream, file);
    rewind(file);
    toyspec_read(fileno(file), options, each, context, report);
    fclose(file);
}

static void test_whole_numbers_are_integers(void) {
    static const char *const names[] = {"step", "own", NULL}, *const inner[] = {"layer", "shape", NULL}, *const entry[] = {"step", NULL};
    static const struct {
        const char *text, *found;
    } cases[] = {{"1.0", "2:1 3:1.0 "}, {"1e3", "2:1000 3:1.0 "}, {"-0.0", "2:0 3:1.0 "}, {"1.5", "3:1.5 3:1.0 "}, {"7", "2:7 3:1.0 "},
                 {"1e23", "2:99999999999999991611392 3:1.0 "}, {"12345678901234567890.0", "2:12345678901234567168 3:1.0 "}};
    struct toyspec_report report;
    char line[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, "{\"kind\":\"step\",\"t\":1.0,\"step\":%s,\"own\":1.0}\n", cases[i].text);
        read_text(line, NULL, note_members, (void *)names, &report);
        CHECK(strcmp(found, cases[i].found) == 0);
    }
    read_text("{\"kind\":\"tap\",\"t\":1.0,\"step\":1,\"layer\":2.0,\"shape\":[3.0]}\n", NULL, note_members, (void *)inner, &report);
    CHECK(strcmp(found, "2:2 2:3 ") == 0);
    read_text("{\"step\":1.0,\"wall_time_ms\":1}\n", NULL, note_members, (void *)entry, &report);
    CHECK(strcmp(found, "3:1.0 ") == 0);
}

static void ignore(void *context, const struct toyspec_record *record) {
    (void)context;
    (void)record;
}

static void test_profile_of_a_stream(void) {
    static const struct {
        const char *stream, *name, *manifest, *profile, *state;
    } cases[] = {
        {"{\"kind\":\"x\",\"t\":1}\n", "events.jsonl", NULL, "toy/v1", "torn"}, {"{\"kind\":\"run_start\"}\n", "events.jsonl", NULL, "toy/v1", "torn"},
        {"{\"kind\":\"x\"}\n", "events.jsonl", NULL, NULL, "complete"}, {"{\"kind\":3,\"t\":1}\n", "events.jsonl", NULL, NULL, "complete"},
        {"{\"type\":\"scalar\"}\n", "events.jsonl", NULL, "kaun/v1", "complete"}, {"{\"type\":\"user\"}\n", "events.jsonl", NULL, NULL, "complete"},
        {"{\"step\":1}\n", "metrics.jsonl", NULL, NULL, "complete"}, {"{\"type\":\"user\"}\n", "x.jsonl", "{\"run_id\":\"a\"}", "kaun/v1", "complete"},
        {"{\"type\":\"user\"}\n", "x.jsonl", "{\"run_id\":\"a\",\"kind\":\"x\"}", NULL, "complete"}, {"", "metrics.jsonl.gz", NULL, "metrics/v1", "torn"},
        {"", "x.jsonl", NULL, "toy/v1", "torn"}, {"", "x.jsonl", "{\"run_id\":\"a\"}", "kaun/v1", "torn"}, {"{\n", "events.jsonl", NULL, "toy/v1", "damaged"},
        {"{\n", "x.jsonl", NULL, NULL, "damaged"}, {"{\n", "metrics.jsonl", NULL, "metrics/v1", "damaged"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[128];
        struct toyspec_report report;
        fresh(NULL);
        snprintf(name, sizeof name, "%s/run.json", directory);
        if (cases[i].manifest) fill_file(name, cases[i].manifest, strlen(cases[i].manifest));
        snprintf(name, sizeof name, "%s/%s", directory, cases[i].name);
        fill_file(name, cases[i].stream, strlen(cases[i].stream));
        toyspec_read_file(name, NULL, ignore, NULL, &report);
        bool same = report.profile && cases[i].profile ? strcmp(report.profile, cases[i].profile) == 0 : report.profile == cases[i].profile;
        CHECK(same && strcmp(report.state, cases[i].state) == 0);
        if (!same) fprintf(stderr, "  %s: %s\n", cases[i].name, cases[i].stream);
        clean();
    }
}

static struct toyspec_value summary;

static void summarize(const char *stream) {
    struct toyspec_report report;
    FILE *file = tmpfile();
    fputs(stream, file);
    rewind(file);
    CHECK(toyspec_summarize(fileno(file), NULL, &summary, &report) == NULL);
    fclose(file);
}

/* Returns a view by its path, members parted by slashes. */
static const struct toyspec_value *view(const char *names) {
    const struct toyspec_value *value = &summary;
    char name[64];
    while (value && *names) {
        size_t length = strcspn(names, "/");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        value = toyspec_get(value, name);
        names += length + (names[length] == '/');
    }
    return value;
}

static bool is_integer_view(const char *names, int64_t expected) {
    const struct toyspec_value *value = view(names);
    return value && value->type == TOYSPEC_INTEGER && !value->text.bytes && value->integer == expected;
}

/* NAN stands for null. */
static bool is_number_view(const char *names, double expected) {
    const struct toyspec_value *value = view(names);
    return value && (isnan(expected) ? value->type == TOYSPEC_NULL : value->type == TOYSPEC_FLOAT && value->number == expected);
}

static bool is_text_view(const char *names, const char *expected) {
    const struct toyspec_value *value = view(names);
    return value && value->type == TOYSPEC_STRING && strcmp(value->text.bytes, expected) == 0;
}

static void test_views_of_a_run_are_those_of_its_latest_attempt(void) {
    summarize("{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"run\"}\n"
              "{\"kind\":\"step\",\"t\":1,\"step\":1,\"loss\":3.5}\n{\n{\"kind\":\"step\",\"t\":2,\"step\":2,\"loss\":3.25}\n"
              "{\"kind\":\"eval\",\"t\":2.5,\"step\":2,\"name\":\"x\",\"phase\":\"eval\"}\n{\"kind\":\"run_resume\",\"t\":3.0,\"from_step\":1}\n"
              "{\"kind\":\"step\",\"t\":4,\"step\":4.0,\"loss\":null}\n{\"kind\":\"step\",\"t\":5,\"step\":5,\"loss\":\"x\"}\n"
              "{\"kind\":\"step\",\"step\":6,\"loss\":9}\n{\"kind\":\"step\",\"t\":7,\"step\":1,\"phase\":\"decode\",\"loss\":9}\n"
              "{\"kind\":\"run_end\",\"t\":-1,\"reason\":\"completed\"}\n");
    CHECK(is_text_view("run_id", "run") && is_text_view("phase", "train") && is_text_view("reason", "completed"));
    CHECK(is_integer_view("steps", 3) && is_integer_view("last_step", 5));
    const struct toyspec_value *curve = view("loss_curve");
    CHECK(curve && curve->count == 2 && curve->items[0].number == 3.5 && curve->items[1].type == TOYSPEC_NULL);
    CHECK(is_number_view("final_loss", NAN) && is_number_view("duration_seconds", 7));
    toyspec_free(&summary);
}

static void test_phase_of_the_run_holds_for_every_event(void) {
    summarize("{\"kind\":\"step\",\"t\":1,\"step\":1,\"loss\":1}\n{\"kind\":\"run_start\",\"phase\":\"eval\"}\n"
              "{\"kind\":\"step\",\"t\":2,\"step\":2,\"loss\":2}\n{\"kind\":\"step\",\"t\":3,\"step\":3,\"phase\":\"train\",\"loss\":3}\n");
    CHECK(is_text_view("phase", "eval") && is_integer_view("steps", 2));
    toyspec_free(&summary);
}

static void test_views_without_a_value_are_absent(void) {
    summarize("{\"kind\":\"run_start\"}\n{\"kind\":\"note\",\"t\":\"x\"}\n");
    CHECK(summary.count == 3 && is_text_view("phase", "train") && is_integer_view("steps", 0) && view("loss_curve")->count == 0);
    toyspec_free(&summary);
    summarize("{\"type\":\"user\"}\n");
    CHECK(summary.type == TOYSPEC_OBJECT && summary.count == 0);
    toyspec_free(&summary);
}

#define ENTRY(step, loss) "{\"step\":" step ",\"wall_time_ms\":1500,\"loss\":" loss ",\"grad_norm\":null,\"throughput_samples_per_sec\":1}\n"

static void test_views_of_a_log(void) {
    summarize(ENTRY("1", "0.1") ENTRY("2", "null") ENTRY("3", "0.3") ENTRY("4", "1e39") ENTRY("5.0", "7"));
    CHECK(is_integer_view("steps", 3) && is_integer_view("last_step", 3) && is_integer_view("non_finite", 1));
    CHECK(is_number_view("final_loss", 0.3f) && is_number_view("duration_seconds", 1.5));
    CHECK(is_number_view("loss_min", 0.1f) && is_number_view("loss_max", 0.3f));
    CHECK(is_number_view("loss_mean", (float)(((double)0.1f + (double)0.3f) / 2)));
    toyspec_free(&summary);
    summarize(ENTRY("1", "null"));
    CHECK(is_number_view("final_loss", NAN) && !view("loss_min") && !view("loss_mean"));
    toyspec_free(&summary);
}

#define SCALAR(members) "{\"type\":\"scalar\"," members "}\n"

static void test_views_of_scalars(void) {
    summarize(SCALAR("\"tag\":\"val_Loss\",\"step\":1,\"value\":3") SCALAR("\"tag\":\"val_Loss\",\"step\":2.5,\"value\":1,\"epoch\":1")
              SCALAR("\"tag\":\"val_Loss\",\"step\":2,\"value\":2,\"epoch\":1") SCALAR("\"tag\":\"val_Loss\",\"step\":2,\"value\":null,\"epoch\":1.5")
              SCALAR("\"tag\":\"val_Loss\",\"step\":\"9\",\"value\":0") SCALAR("\"tag\":\"acc\",\"step\":1e30,\"value\":1,\"minimize\":true")
              SCALAR("\"tag\":\"acc\",\"step\":2e30,\"value\":2,\"minimize\":\"x\"") SCALAR("\"tag\":\"none\",\"step\":1,\"value\":null"));
    CHECK(is_integer_view("tags/val_Loss/count", 4) && is_integer_view("tags/val_Loss/latest/step", 2));
    CHECK(is_integer_view("tags/val_Loss/latest/epoch", 1) && is_number_view("tags/val_Loss/latest/value", 1));
    CHECK(is_number_view("tags/val_Loss/best/value", 1) && is_integer_view("tags/val_Loss/best/step", 2));
    CHECK(is_number_view("tags/acc/latest/value", 2) && is_number_view("tags/acc/best/value", 1));
    CHECK(is_number_view("tags/none/latest/value", NAN) && !view("tags/none/best"));
    toyspec_free(&summary);
}

static void test_run_id_of_a_bundle_is_that_of_its_manifest(void) {
    static const char *const manifests[] = {"{\"run_id\":\"a\"}", "{\"run_id\":3}", "{"};
    for (size_t i = 0; i < 3; i++) {
        char name[128];
        struct toyspec_report report;
        fresh(SCALAR("\"tag\":\"a\",\"step\":1,\"value\":1"));
        snprintf(name, sizeof name, "%s/run.json", directory);
        fill_file(name, manifests[i], strlen(manifests[i]));
        CHECK(toyspec_summarize_file(directory, NULL, &summary, &report) == NULL);
        CHECK(is_text_view("run_id", i == 0 ? "a" : strrchr(directory, '/') + 1));
        toyspec_free(&summary);
        clean();
    }
    CHECK(toyspec_summarize_file("/nowhere/at/all", NULL, &summary, &(struct toyspec_report){0}) != NULL);
}

void run_reading_tests(void) {
    test_whole_numbers_are_integers();
    test_profile_of_a_stream();
    test_views_of_a_run_are_those_of_its_latest_attempt();
    test_phase_of_the_run_holds_for_every_event();
    test_views_without_a_value_are_absent();
    test_views_of_a_log();
    test_views_of_scalars();
    test_run_id_of_a_bundle_is_that_of_its_manifest();
}
