/* Writes the requested records, one for each line of input, for the fault runner: see conformance/faults/programs.py. */
#define _POSIX_C_SOURCE 200809L

#include "toyspec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 17000000, LEVELS = 100, DIGITS = 400 };

static struct toyspec_writer *writer;

static struct toyspec_value text_of(char byte, size_t size) {
    char *bytes = malloc(size + 1);
    if (!bytes) exit(3);
    memset(bytes, byte, size);
    bytes[size] = 0;
    return (struct toyspec_value){.type = TOYSPEC_STRING, .owned = true, .text = {bytes, size}};
}

static const char *write_two(const char *kind, const char *key, struct toyspec_value value) {
    struct toyspec_member members[3] = {toyspec_member("kind", toyspec_string(kind)), toyspec_member(key, value)};
    struct toyspec_value record = toyspec_object(members, 2);
    return toyspec_write(writer, &record);
}

static const char *write_step(struct toyspec_value number, double loss) {
    struct toyspec_member members[5] = {toyspec_member("kind", toyspec_string("step")), toyspec_member("phase", toyspec_string("train")),
                                        toyspec_member("step", number), toyspec_member("loss", toyspec_number(loss))};
    struct toyspec_value record = toyspec_object(members, 4);
    return toyspec_write(writer, &record);
}

static const char *write_note(int64_t step, size_t size) {
    struct toyspec_value text = text_of('x', size);
    struct toyspec_member members[4] = {toyspec_member("kind", toyspec_string("note")), toyspec_member("text", text),
                                        toyspec_member("step", toyspec_integer(step))};
    struct toyspec_value record = toyspec_object(members, 3);
    const char *why = toyspec_write(writer, &record);
    free((char *)text.text.bytes);
    return why;
}

static const char *write_entry(int64_t step) {
    struct toyspec_member members[6] = {
        toyspec_member("step", toyspec_integer(step)),   toyspec_member("wall_time_ms", toyspec_number(1)),
        toyspec_member("loss", toyspec_number(0.5)),     toyspec_member("grad_norm", toyspec_number(0.5)),
        toyspec_member("extra", toyspec_object(NULL, 0)), toyspec_member("throughput_samples_per_sec", toyspec_number(1))};
    struct toyspec_value record = toyspec_object(members, 6);
    return toyspec_write(writer, &record);
}

/* Writes what is hostile; false where C has no such value. */
static bool write_value(const char *name, const char **why) {
    if (strcmp(name, "long-integer") == 0 || strcmp(name, "zeros") == 0) {
        struct toyspec_value digits = name[0] == 'l' ? text_of('1', DIGITS) : toyspec_string("007");
        bool owned = digits.owned;
        char *bytes = (char *)digits.text.bytes;
        digits.type = TOYSPEC_INTEGER;
        digits.owned = false;
        *why = write_step(digits, 0.5);
        if (owned) free(bytes);
    } else if (strcmp(name, "bad-utf8") == 0) *why = write_two("note", "text", toyspec_string("a\xff"));
    else if (strcmp(name, "twin-keys") == 0) {
        struct toyspec_member twins[2] = {toyspec_member("a\xff", toyspec_integer(1)), toyspec_member("a\xfe", toyspec_integer(2))};
        *why = write_two("mine", "m", toyspec_object(twins, 2));
    } else if (strcmp(name, "nan") == 0) *why = write_step(toyspec_integer(1000), NAN);
    else if (strcmp(name, "long") == 0) *why = write_note(1000, LONGEST);
    else if (strcmp(name, "no-kind") == 0) {
        struct toyspec_member only[2] = {toyspec_member("m", toyspec_integer(1))};
        struct toyspec_value record = toyspec_object(only, 1);
        *why = toyspec_write(writer, &record);
    } else if (strcmp(name, "deep") == 0) {
        struct toyspec_value nested[LEVELS];
        nested[0] = toyspec_array(NULL, 0);
        for (int i = 1; i < LEVELS; i++) nested[i] = toyspec_array(&nested[i - 1], 1);
        *why = write_two("mine", "m", nested[LEVELS - 1]);
    } else return false;
    return true;
}

static const char *open_run(const char *rest) {
    enum toyspec_exist exist = rest[0] == 'f' ? TOYSPEC_FAIL : strncmp(rest, "resume", 6) == 0 ? TOYSPEC_RESUME : TOYSPEC_REPLACE;
    struct toyspec_writer *opened;
    const char *why = toyspec_open(&opened, strchr(rest, ' ') + 1, exist);
    if (!why) writer = opened;
    return why;
}

static void answer_child(const char *rest) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(write_step(toyspec_integer(atoll(rest)), 0.5) != NULL);
    waitpid(child, &status, 0);
    if (!WIFEXITED(status)) puts("failed child crashed");
    else puts(WEXITSTATUS(status) ? "failed in the child" : "ok");
}

static void ignore(void *context, const struct toyspec_record *record) {
    (void)context;
    (void)record;
}

static const char *read_all(const char *path) {
    struct toyspec_report report;
    return toyspec_read_file(path, NULL, ignore, NULL, &report);
}

/* Does what a line says, and returns why it could not; prints the answer itself and returns "" where it is another one. */
static const char *obey(const char *command, char *rest) {
    const char *why = NULL;
    if (strcmp(command, "open") == 0) return open_run(rest);
    if (strcmp(command, "append") == 0) return toyspec_append(&writer, rest, "metrics/v1");
    if (strcmp(command, "start") == 0) return write_two("run_start", "run_id", toyspec_string("demo"));
    if (strcmp(command, "resume") == 0) return write_two("run_resume", "from_step", toyspec_integer(atoll(rest)));
    if (strcmp(command, "step") == 0) return write_step(toyspec_integer(atoll(rest)), 0.5);
    if (strcmp(command, "entry") == 0) return write_entry(atoll(rest));
    if (strcmp(command, "note") == 0) return write_note(atoll(rest), (size_t)atoll(strchr(rest, ' ') + 1));
    if (strcmp(command, "end") == 0) return write_two("run_end", "reason", toyspec_string("completed"));
    if (strcmp(command, "close") == 0) {
        toyspec_close(writer);
        writer = NULL;
        return NULL;
    }
    if (strcmp(command, "dropped") == 0) printf("ok %llu\n", (unsigned long long)toyspec_dropped(writer));
    else if (strcmp(command, "fork") == 0) answer_child(rest);
    else if (strcmp(command, "read") == 0) return read_all(rest);
    else if (strcmp(command, "value") != 0) return "no such command";
    else if (write_value(rest, &why)) return why;
    else puts("untestable C has no such value");
    return "";
}

int main(void) {
    char line[8192];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        char *rest = strchr(line, ' ');
        if (rest) *rest++ = 0;
        const char *why = obey(line, rest ? rest : line + strlen(line));
        if (!why) puts("ok");
        else if (*why) printf("failed %s\n", why);
        fflush(stdout);
    }
    return 0;
}
