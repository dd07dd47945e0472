/* What the tests share: checks, directories that are made and removed, files and their content, calls that fail. */
#ifndef TESTING_H
#define TESTING_H

#include "toyspec.h"

#include <stdbool.h>
#include <stdio.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            failures++;                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                           \
    } while (0)

extern int failures;
extern char directory[64], path[128];
extern const char start[], end[];

/* Makes a directory; its stream has this content, and does not exist for NULL. */
void fresh(const char *stream);
void clean(void);
/* Returns the path of a file beside the stream, valid until the next call. */
const char *beside(const char *ending);
void fill_file(const char *name, const char *bytes, size_t length);
/* Returns the content of a file, "" where there is none; valid until the next call. */
const char *contents(const char *name);
bool exists(const char *name);
size_t names_in(const char *folder);
size_t records_in(const char *name, const char *state);

struct toyspec_writer *started(void);
const char *write_start(struct toyspec_writer *writer, const char *id);
const char *write_resume(struct toyspec_writer *writer, int64_t from_step);

/* The calls of the library, counted, and made to fail. */
extern struct calls {
    int sync_error, sync_failures, syncs; /* the next so many syncs fail */
    void (*on_sync)(int descriptor);
    int lock_error;                       /* every flock fails */
    void (*on_lock)(void);
    int writes;
    int write_error;                      /* the next write fails */
    size_t short_write;                   /* the next write takes so many bytes, the one after it none: the disk is full */
    void (*on_short_write)(void);
    double later;                         /* seconds that the clock is ahead */
} calls;

/* The number and the last of the warnings since the last call of fresh. */
extern int warnings;
extern char warning[1024];

void run_fault_tests(void);
void run_reading_tests(void);

#endif
