/* Tests of the writer when the disk, another process or the file system fails. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE

#include "testing.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_FRAGMENT = 200000 };

static struct rlimit unlimited;

/* Lets no file grow beyond a size, until room is made again. */
static void make_room_for(size_t size) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &unlimited);
    limit = unlimited;
    limit.rlim_cur = size;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void make_room(void) { setrlimit(RLIMIT_FSIZE, &unlimited); }

/* Opens a torn stream and writes run_resume; returns why it could not, in memory that stays. */
static const char *resume(void) {
    static char kept[1024];
    struct toyspec_writer *writer;
    const char *reason = toyspec_open(&writer, directory, TOYSPEC_RESUME);
    if (!reason) reason = write_resume(writer, 0);
    if (reason) snprintf(kept, sizeof kept, "%s", reason);
    toyspec_close(writer);
    return reason ? kept : NULL;
}

static void test_every_replaced_stream_is_kept(void) {
    static const struct {
        const char *ending, *id;
    } kept[] = {{"", "run-3"}, {".prev", "run-2"}, {".prev-2", "run-1"}, {".prev-1", "run-0"}};
    fresh(NULL);
    for (int run = 0; run < 4; run++) {
        struct toyspec_writer *writer;
        char id[16];
        snprintf(id, sizeof id, "run-%d", run);
        CHECK(toyspec_open(&writer, directory, TOYSPEC_REPLACE) == NULL);
        CHECK(write_start(writer, id) == NULL);
        toyspec_close(writer);
    }
    for (size_t i = 0; i < 4; i++) CHECK(strstr(contents(beside(kept[i].ending)), kept[i].id) != NULL);
    clean();
}

static void test_empty_stream_does_not_replace_an_earlier_one(void) {
    struct toyspec_writer *writer;
    fresh("");
    fill_file(beside(".prev"), start, strlen(start));
    CHECK(toyspec_open(&writer, directory, TOYSPEC_REPLACE) == NULL);
    CHECK(write_start(writer, "run") == NULL);
    toyspec_close(writer);
    CHECK(strcmp(contents(beside(".prev")), start) == 0 && names_in(directory) == 2);
    clean();
}

static void test_refused_start_changes_nothing(void) {
    struct toyspec_writer *writer;
    char run[128];
    fresh(NULL);
    snprintf(run, sizeof run, "%s/runs/a", directory);
    CHECK(toyspec_open(&writer, run, TOYSPEC_REPLACE) == NULL);
    const char *reason = write_start(writer, "-rf");
    CHECK(reason && strstr(reason, run));
    toyspec_close(writer);
    CHECK(names_in(directory) == 0);
    clean();
    fresh(start);
    fill_file(beside(".prev"), end, strlen(end));
    CHECK(toyspec_open(&writer, directory, TOYSPEC_REPLACE) == NULL);
    toyspec_close(writer);
    CHECK(strcmp(contents(path), start) == 0 && names_in(directory) == 2);
    CHECK(strcmp(contents(beside(".prev")), end) == 0);
    clean();
}

/* Writes a torn stream whose fragment is so many times the character. */
static void tear(char character, size_t length) {
    size_t head = strlen(start);
    char *torn = malloc(head + length);
    memcpy(torn, start, head);
    memset(torn + head, character, length);
    fill_file(path, torn, head + length);
    free(torn);
}

static void test_long_fragments_are_kept_each_in_its_file(void) {
    static const char *const endings[] = {"", "-2", "-3"};
    char name[64];
    fresh(NULL);
    for (int i = 0; i < 3; i++) {
        tear((char)('a' + i), LONG_FRAGMENT);
        CHECK(resume() == NULL && records_in(path, "torn") == 2);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, ".torn-%zu%s", strlen(start), endings[i]);
        const char *kept = contents(beside(name));
        CHECK(strlen(kept) == LONG_FRAGMENT && kept[0] == 'a' + i && kept[LONG_FRAGMENT - 1] == 'a' + i);
    }
    clean();
}

static off_t sizes_at_syncs[4];

static void note_size(int descriptor) {
    struct stat status;
    (void)descriptor;
    if (calls.syncs <= 4 && stat(path, &status) == 0) sizes_at_syncs[calls.syncs - 1] = status.st_size;
}

static void test_side_file_is_on_the_disk_before_the_cut(void) {
    off_t whole = (off_t)strlen(start);
    fresh(NULL);
    tear('a', 1);
    calls.on_sync = note_size;
    CHECK(resume() == NULL);
    /* The side file, its directory, and after the cut the stream. */
    CHECK(calls.syncs == 3 && sizes_at_syncs[0] == whole + 1 && sizes_at_syncs[1] == whole + 1 && sizes_at_syncs[2] == whole);
    clean();
}

static void test_full_disk_while_resuming_changes_nothing(void) {
    fresh(NULL);
    tear('a', LONG_FRAGMENT);
    make_room_for(100000);
    const char *reason = resume();
    make_room();
    CHECK(reason && strstr(reason, path) == reason);
    CHECK(names_in(directory) == 1 && strlen(contents(path)) == strlen(start) + LONG_FRAGMENT);
    CHECK(resume() == NULL && records_in(path, "torn") == 2);
    clean();
}

static void test_refused_resume_changes_nothing(void) {
    struct toyspec_writer *writer;
    fresh(NULL);
    tear('a', 1);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
    CHECK(toyspec_step(writer, 1, 1, 1, 1) != NULL);
    toyspec_close(writer);
    CHECK(names_in(directory) == 1 && strlen(contents(path)) == strlen(start) + 1);
    clean();
}

static void test_records_that_do_not_fit_are_dropped_and_counted(void) {
    struct toyspec_writer *writer = started();
    CHECK(toyspec_step(writer, 1, 2.5, NAN, NAN) == NULL);
    size_t whole = strlen(contents(path));
    make_room_for(whole + 10);
    for (int step = 2; step < 4; step++) {
        const char *reason = toyspec_step(writer, step, 2.5, NAN, NAN);
        CHECK(reason && strstr(reason, path) == reason && strstr(reason, "dropped"));
        CHECK(strlen(contents(path)) == whole);
    }
    make_room();
    CHECK(toyspec_is_open(writer) && toyspec_dropped(writer) == 2);
    CHECK(toyspec_step(writer, 4, 2.5, NAN, NAN) == NULL);
    CHECK(strstr(contents(path), "\"text\":\"2 records before this one were dropped: ") != NULL);
    CHECK(toyspec_end(writer, "completed", NULL) == NULL);
    CHECK(records_in(path, "complete") == 5);
    clean();
}

static void test_note_on_dropped_records_comes_before_the_end(void) {
    struct toyspec_writer *writer = started();
    make_room_for(strlen(contents(path)));
    CHECK(toyspec_step(writer, 1, 2.5, NAN, NAN) != NULL);
    make_room();
    CHECK(toyspec_end(writer, "completed", NULL) == NULL);
    CHECK(records_in(path, "complete") == 3 && strstr(contents(path), "1 records before"));
    clean();
}

static void test_roll_back_never_cuts_or_grows_what_others_changed(void) {
    for (int emptied = 0; emptied < 2; emptied++) {
        struct toyspec_writer *writer = started();
        CHECK(toyspec_step(writer, 1, 2.5, NAN, NAN) == NULL);
        FILE *other = fopen(path, emptied ? "wb" : "ab");
        fputs("{\"kind\":\"note\",\"t\":1.0,\"text\":\"of another process\"}\n", other);
        fclose(other);
        char left[512];
        snprintf(left, sizeof left, "%s", contents(path));
        make_room_for(strlen(left) + 10);
        CHECK(toyspec_step(writer, 2, 2.5, NAN, NAN) != NULL);
        make_room();
        CHECK(strcmp(contents(path), left) == 0);
        CHECK(toyspec_step(writer, 3, 2.5, NAN, NAN) == NULL);
        toyspec_close(writer);
        clean();
    }
}

static void append_after_a_part(void) {
    FILE *other = fopen(path, "ab");
    fputs("{\"kind\":\"note\",\"t\":1.0,\"text\":\"of another process\"}\n", other);
    fclose(other);
}

static void test_part_that_is_not_at_the_end_stays(void) {
    struct toyspec_writer *writer = started();
    calls.short_write = 10;
    calls.on_short_write = append_after_a_part;
    CHECK(toyspec_step(writer, 1, 2.5, NAN, NAN) != NULL && !toyspec_is_open(writer));
    CHECK(strstr(contents(path), "of another process\"}\n") != NULL);
    toyspec_close(writer);
    clean();
}

static void test_error_that_stays_closes_the_writer_for_good(void) {
    struct toyspec_writer *writer = started();
    calls.write_error = EIO;
    const char *reason = toyspec_step(writer, 1, 2.5, NAN, NAN);
    CHECK(reason && strstr(reason, path) == reason && strstr(reason, "for good"));
    CHECK(toyspec_step(writer, 2, 2.5, NAN, NAN) != NULL && !toyspec_is_open(writer));
    toyspec_close(writer);
    CHECK(records_in(path, "torn") == 1);
    clean();
}

static void test_interrupted_write_is_repeated(void) {
    struct toyspec_writer *writer = started();
    calls.write_error = EINTR;
    CHECK(toyspec_step(writer, 1, 2.5, NAN, NAN) == NULL && toyspec_dropped(writer) == 0);
    toyspec_close(writer);
    CHECK(records_in(path, "torn") == 2);
    clean();
}

static void test_failed_sync_is_never_retried(void) {
    for (int failed = 0; failed < 2; failed++) { /* that of the file, that of its directory */
        struct toyspec_writer *writer;
        fresh(NULL);
        CHECK(toyspec_open(&writer, directory, TOYSPEC_REPLACE) == NULL);
        calls.sync_error = EINVAL;
        if (failed == 0) calls.sync_error = EIO;
        calls.sync_failures = 1;
        const char *reason = write_start(writer, "run");
        CHECK((reason != NULL) == (failed == 0)); /* EINVAL: this file system cannot sync */
        int syncs = calls.syncs;
        reason = toyspec_end(writer, "completed", NULL);
        CHECK((reason && strstr(reason, "power loss")) == (failed == 0));
        CHECK((calls.syncs == syncs) == (failed == 0));
        CHECK(records_in(path, "complete") == 2);
        clean();
    }
}

static void fail_second_sync(int descriptor) {
    (void)descriptor;
    calls.sync_error = EIO;
    if (calls.syncs == 2) calls.sync_failures = 1;
}

static void test_failed_sync_of_the_directory_is_reported(void) {
    struct toyspec_writer *writer;
    fresh(NULL);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_REPLACE) == NULL);
    calls.on_sync = fail_second_sync;
    CHECK(write_start(writer, "run") != NULL);
    CHECK(toyspec_step(writer, 1, 2.5, NAN, NAN) == NULL);
    CHECK(toyspec_end(writer, "completed", NULL) != NULL);
    clean();
}

static void test_missing_locks_do_not_mean_another_writer(void) {
    static const int missing[] = {ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL};
    struct toyspec_writer *writer;
    fresh(start);
    for (size_t i = 0; i < 4; i++) {
        calls.lock_error = missing[i];
        CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
        toyspec_close(writer);
    }
    calls.lock_error = EWOULDBLOCK;
    const char *reason = toyspec_open(&writer, directory, TOYSPEC_RESUME);
    CHECK(reason && strstr(reason, "another writer") && writer == NULL);
    clean();
}

static void replace_once(void) {
    calls.on_lock = NULL;
    CHECK(rename(path, beside(".old")) == 0);
    fill_file(path, "", 0);
}

static void test_stream_that_is_replaced_before_it_is_locked_is_opened_again(void) {
    struct toyspec_writer *writer;
    fresh("");
    calls.on_lock = replace_once;
    CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
    CHECK(write_start(writer, "run") == NULL);
    toyspec_close(writer);
    CHECK(*contents(path) && !*contents(beside(".old")));
    clean();
}

/* Locks the stream in another process; exits with 0 where it got the lock, after its input has ended. */
static pid_t lock_elsewhere(bool record_lock, int *hold) {
    int ready[2], ends[2];
    char byte;
    CHECK(pipe(ready) == 0 && pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int descriptor = open(path, O_RDWR);
        int result = record_lock ? fcntl(descriptor, F_SETLK, &whole) : flock(descriptor, LOCK_EX | LOCK_NB);
        close(ends[1]);
        if (write(ready[1], "!", 1) == 1 && result == 0 && read(ends[0], &byte, 1) < 0) _exit(2);
        _exit(result == 0 ? 0 : 1);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]), close(ready[1]), close(ends[0]);
    *hold = ends[1];
    return child;
}

static int status_of(pid_t child, int hold) {
    int status = -1;
    close(hold);
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_other_writers_are_seen(void) {
    for (int record_lock = 0; record_lock < 2; record_lock++) {
        struct toyspec_writer *writer;
        int hold;
        fresh(start);
        pid_t child = lock_elsewhere(record_lock, &hold);
        for (int exist = TOYSPEC_REPLACE; exist <= TOYSPEC_RESUME; exist++) {
            const char *reason = toyspec_open(&writer, directory, (enum toyspec_exist)exist);
            CHECK(reason && strstr(reason, "another writer"));
        }
        CHECK(status_of(child, hold) == 0 && names_in(directory) == 1);
        CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
        close(open(path, O_RDONLY)); /* a lock of the process, not of the file, would be gone now */
        child = lock_elsewhere(record_lock, &hold);
        CHECK(status_of(child, hold) == 1);
        toyspec_close(writer);
        clean();
    }
}

static void test_only_regular_files_are_written(void) {
    for (int kind = 0; kind < 3; kind++)
        for (int exist = TOYSPEC_REPLACE; exist <= TOYSPEC_RESUME; exist++) {
            struct toyspec_writer *writer;
            fresh(NULL);
            CHECK((kind == 0 ? mkdir(path, 0777) : kind == 1 ? mkfifo(path, 0666) : symlink("/dev/null", path)) == 0);
            alarm(5); /* a pipe without a reader must not block */
            const char *reason = toyspec_open(&writer, directory, (enum toyspec_exist)exist);
            alarm(0);
            CHECK(reason && strstr(reason, path) == reason && writer == NULL);
            CHECK(exists(path) && names_in(directory) == 1);
            clean();
        }
}

static void change_stream(int change) {
    char command[256];
    snprintf(command, sizeof command, "rm -r %s", directory);
    if (change == 0) CHECK(unlink(path) == 0);
    if (change == 1) CHECK(rename(path, beside(".moved")) == 0);
    if (change == 2) CHECK(system(command) == 0);
    if (change >= 3) CHECK(unlink(path) == 0);
    if (change == 3) fill_file(path, "other\n", 6);
    if (change == 4) fill_file(path, "", 0);
}

static void test_stream_that_is_gone_is_started_again(void) {
    for (int change = 0; change < 5; change++) {
        struct toyspec_writer *writer = started();
        CHECK(toyspec_step(writer, 1, 2.5, NAN, NAN) == NULL);
        change_stream(change);
        CHECK(toyspec_step(writer, 2, 2.5, NAN, NAN) == NULL); /* less than a second after the last look */
        CHECK(warnings == 0);
        calls.later = 2;
        CHECK(toyspec_step(writer, 3, 2.5, NAN, NAN) == NULL);
        CHECK(warnings == 1 && strstr(warning, path) == warning && strstr(warning, "started again"));
        CHECK(toyspec_end(writer, "completed", NULL) == NULL);
        CHECK(records_in(path, "complete") == 5 && warnings == 1);
        if (change == 3) CHECK(strcmp(contents(beside(".prev")), "other\n") == 0);
        clean();
    }
}

static void test_log_that_is_gone_is_started_again(void) {
    struct toyspec_writer *writer;
    fresh(NULL);
    CHECK(toyspec_append(&writer, path, "kaun/v1") == NULL);
    for (int step = 0; step < 3; step++) {
        struct toyspec_member members[] = {toyspec_member("type", toyspec_string("scalar")), toyspec_member("step", toyspec_integer(step)),
                                           toyspec_member("tag", toyspec_string("loss")), toyspec_member("value", toyspec_number(1))};
        struct toyspec_value record = toyspec_object(members, 4);
        CHECK(toyspec_write(writer, &record) == NULL);
        if (step == 1) unlink(path);
        calls.later += 2;
    }
    CHECK(warnings == 1 && strstr(warning, path) == warning);
    toyspec_close(writer);
    CHECK(records_in(path, "complete") == 3);
    clean();
}

static void test_program_survives_its_limit_of_file_sizes(void) {
    fresh(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct toyspec_writer *writer;
        signal(SIGXFSZ, SIG_DFL);
        bool good = toyspec_open(&writer, directory, TOYSPEC_REPLACE) == NULL && write_start(writer, "run") == NULL;
        make_room_for(strlen(contents(path)) + 10);
        good = good && toyspec_step(writer, 1, 2.5, NAN, NAN) != NULL && toyspec_is_open(writer);
        toyspec_close(writer);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    clean();
}

static void test_resumed_stream_begins_with_run_resume(void) {
    struct toyspec_writer *writer;
    fresh(start);
    CHECK(toyspec_open(&writer, directory, TOYSPEC_RESUME) == NULL);
    const char *reason = toyspec_step(writer, 1, 2.5, NAN, NAN);
    CHECK(reason && strstr(reason, "run_resume"));
    CHECK(write_resume(writer, 0) == NULL);
    CHECK(toyspec_step(writer, 1, 2.5, NAN, NAN) == NULL);
    toyspec_close(writer);
    clean();
}

static void test_streams_of_another_format_are_left_alone(void) {
    static const struct {
        const char *stream, *profile;
    } others[] = {{"{\"type\":\"user\"}\n{", "toy/v1"}, {"{\"step\":1,\"loss\":2}\n{", "metrics/v1"}, {start, "kaun/v1"}};
    for (size_t i = 0; i < 3; i++) {
        struct toyspec_writer *writer;
        fresh(others[i].stream);
        const char *reason = i == 0 ? toyspec_open(&writer, directory, TOYSPEC_RESUME) : toyspec_append(&writer, path, others[i].profile);
        CHECK(reason && strstr(reason, "profile") && writer == NULL);
        CHECK(names_in(directory) == 1 && strcmp(contents(path), others[i].stream) == 0);
        clean();
    }
}

void run_fault_tests(void) {
    test_program_survives_its_limit_of_file_sizes();
    signal(SIGXFSZ, SIG_IGN);
    test_every_replaced_stream_is_kept();
    test_empty_stream_does_not_replace_an_earlier_one();
    test_refused_start_changes_nothing();
    test_long_fragments_are_kept_each_in_its_file();
    test_side_file_is_on_the_disk_before_the_cut();
    test_full_disk_while_resuming_changes_nothing();
    test_refused_resume_changes_nothing();
    test_records_that_do_not_fit_are_dropped_and_counted();
    test_note_on_dropped_records_comes_before_the_end();
    test_roll_back_never_cuts_or_grows_what_others_changed();
    test_part_that_is_not_at_the_end_stays();
    test_error_that_stays_closes_the_writer_for_good();
    test_interrupted_write_is_repeated();
    test_failed_sync_is_never_retried();
    test_failed_sync_of_the_directory_is_reported();
    test_missing_locks_do_not_mean_another_writer();
    test_stream_that_is_replaced_before_it_is_locked_is_opened_again();
    test_other_writers_are_seen();
    test_only_regular_files_are_written();
    test_stream_that_is_gone_is_started_again();
    test_log_that_is_gone_is_started_again();
    test_resumed_stream_begins_with_run_resume();
    test_streams_of_another_format_are_left_alone();
}
