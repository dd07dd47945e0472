/* Reads and writes training logs in JSON Lines: the profiles toy/v1, metrics/v1 and kaun/v1. C11, POSIX.
 *
 * A record is committed by its line feed. Writing hands each record over in one write, in canonical form, and
 * allocates nothing for a record that fits into 64 KiB. Reading checks every line strictly. */
#ifndef TOYSPEC_H
#define TOYSPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* generated:limits, from schemas/limits.json */
#define TOYSPEC_MAX_LINE_BYTES 16777216 /* of a line without its LF */
#define TOYSPEC_MAX_DEPTH 64 /* the record itself is the first level */
#define TOYSPEC_MAX_LISTED_GAPS 100 /* a report counts all others */
#define TOYSPEC_BINARY32_LIMIT 3.4028235677973366e+38 /* smaller magnitudes round to a finite binary32 */
/* /generated */

/* Values. Strings need not end with NUL; their bytes have to be UTF-8. */

enum toyspec_type {
    TOYSPEC_NULL,
    TOYSPEC_BOOLEAN,
    TOYSPEC_INTEGER, /* of any size, by its digits, or int64_t where text is NULL */
    TOYSPEC_FLOAT,
    TOYSPEC_STRING,
    TOYSPEC_ARRAY,
    TOYSPEC_OBJECT
};

struct toyspec_text {
    const char *bytes;
    size_t length;
};

struct toyspec_member;

struct toyspec_value {
    enum toyspec_type type;
    bool boolean;
    bool owned; /* text.bytes is freed with the value */
    int64_t integer;
    double number;
    struct toyspec_text text; /* of a string; of a number as it was read; digits of a large integer */
    size_t count;             /* items of an array, members of an object */
    struct toyspec_value *items;
    struct toyspec_member *members; /* put into order when they are written */
};

struct toyspec_member {
    struct toyspec_text key;
    struct toyspec_value value;
};

struct toyspec_value toyspec_null(void);
struct toyspec_value toyspec_boolean(bool value);
struct toyspec_value toyspec_integer(int64_t value);
struct toyspec_value toyspec_number(double value); /* NaN and infinities are written as null */
struct toyspec_value toyspec_string(const char *value);
struct toyspec_value toyspec_object(struct toyspec_member *members, size_t count);
struct toyspec_value toyspec_array(struct toyspec_value *items, size_t count);
struct toyspec_member toyspec_member(const char *key, struct toyspec_value value);

/* Returns the member of an object, NULL where there is none; of a repeated key the last. */
const struct toyspec_value *toyspec_get(const struct toyspec_value *object, const char *key);

/* Canonical form. */

struct toyspec_buffer {
    char *bytes;
    size_t length;
    size_t capacity; /* 0 with bytes NULL to begin with; free(bytes) at the end */
};

/* Appends the canonical line of a record, LF included. Returns NULL, or why the record is refused; then nothing was
 * appended. Profile is "toy/v1", "metrics/v1" or "kaun/v1". */
const char *toyspec_encode(const char *profile, struct toyspec_value *record, struct toyspec_buffer *line);

/* Write the canonical text of a finite number, at most 32 bytes with its NUL; return its length. */
size_t toyspec_binary64_text(double number, char text[32]);
size_t toyspec_binary32_text(float number, char text[32]);

/* The rules between the records of a toy/v1 stream: run_start first and once, run_resume first in a stream that is resumed,
 * nothing after run_end, t and the steps of a phase never back. Zero it to begin with. A writer has one of its own. */

struct toyspec_sequence {
    bool started, ended;
    bool resumes;      /* a run_resume has to come next */
    double last;       /* the t of the last record of a known kind that has a valid one */
    int run_phase;     /* phases count from 1: train, eval, decode, serve */
    bool has_base[5];
    int64_t bases[5];  /* the last step of each phase */
    bool has_step;     /* of phase train: its last step event, */
    int64_t step;
    bool has_loss;     /* and the loss of that, */
    double loss;       /* NaN for null */
};

/* Returns NULL where a record may be written, else the reason; sets its t, where that is smaller than the one before. */
const char *toyspec_admit(const struct toyspec_sequence *sequence, struct toyspec_value *record);
/* Takes in a record that is in the stream. */
void toyspec_note(struct toyspec_sequence *sequence, const struct toyspec_value *record);

/* Writing. A function returns NULL when it has done its work, else the reason: path, colon, what happened. The text is valid
 * until the next call in the thread. */

enum toyspec_exist {
    TOYSPEC_REPLACE, /* an old stream moves to events.jsonl.prev, and what has that name to the next free events.jsonl.prev-N */
    TOYSPEC_FAIL,
    TOYSPEC_RESUME /* a torn stream goes on with a run_resume; its fragment is kept beside it */
};

struct toyspec_writer;

/* Opens a toy/v1 stream in a directory, which is made, with those above it. Where SIGXFSZ has its default action, which
 * ends a program whose file grows beyond its limit, it is ignored from then on. */
const char *toyspec_open(struct toyspec_writer **writer, const char *directory, enum toyspec_exist exist);
/* Opens a metrics/v1 or kaun/v1 stream and goes on at its end. */
const char *toyspec_append(struct toyspec_writer **writer, const char *path, const char *profile);
/* Appends a record. A toy/v1 record without t gets the seconds since the start, a run_start without schema gets it, and a
 * kaun/v1 scalar without wall_time gets the current time. One thread at a time. A record for which there is no room is
 * dropped and counted; later ones are tried, and a note tells how many were dropped. After any other failed write the
 * writer is closed for good. */
const char *toyspec_write(struct toyspec_writer *writer, struct toyspec_value *record);
/* Writes a picture, a sound, a table or another file into the folder media of the bundle, and then the media record that
 * names it. The record has name and media_type; its sha256 follows from the content, and is refused if it is another one.
 * Where the record is refused, neither is written. */
const char *toyspec_write_media(struct toyspec_writer *writer, const struct toyspec_value *record, const void *content, size_t size);
/* The step path: allocates nothing. NaN where a number was not measured; it is then left out. */
const char *toyspec_step(struct toyspec_writer *writer, int64_t step, double loss, double lr, double grad_norm);
/* Returns how many records were dropped. */
uint64_t toyspec_dropped(const struct toyspec_writer *writer);
/* Returns whether later records can be written. */
bool toyspec_is_open(const struct toyspec_writer *writer);
/* Writes run_end with a reason, the error that it is for, which may be NULL, and the last train step; then closes. A run
 * that has not begun, or has ended, is closed unchanged. Accepts NULL. */
const char *toyspec_end(struct toyspec_writer *writer, const char *reason, const char *error);
/* Releases the stream; a run without run_end stays torn. A writer that has written nothing leaves everything as it was
 * before it was opened. Accepts NULL. */
void toyspec_close(struct toyspec_writer *writer);

/* Called with what a writer has to say that no return value carries, for example that its file was deleted. By default
 * it writes one line to standard error. */
extern void (*toyspec_warn)(const char *message);

/* Reading. */

struct toyspec_gap {
    uint64_t line; /* from 1 */
    uint64_t offset;
    uint64_t length;
    const char *reason; /* the rule that the line breaks, or "stopped" for what was left unread */
};

struct toyspec_report {
    const char *profile; /* NULL where the format is not known: the records are given all the same */
    const char *state; /* "complete", "torn" or "damaged" */
    uint64_t records;
    uint64_t committed; /* bytes of readable and blank lines, with their LFs */
    uint64_t fragment;  /* bytes after the last LF */
    uint64_t gap_bytes; /* committed + fragment + gap_bytes is the size of the stream */
    size_t gap_count;   /* of those listed */
    struct toyspec_gap gaps[TOYSPEC_MAX_LISTED_GAPS + 1];
};

struct toyspec_record {
    struct toyspec_text raw; /* the line without its LF */
    uint64_t line;           /* from 1 */
    uint64_t offset;
    /* Valid during the call. In toy/v1 and kaun/v1 an integer that is written 1.0 or 1e3 is an integer; where text is NULL
     * it is in integer. */
    struct toyspec_value value;
    const char *profile; /* of the stream */
};

struct toyspec_options {
    const char *mode;    /* "strict", "tail", "prefix" or "salvage"; NULL is tail */
    const char *profile; /* NULL detects it */
    const char *name;    /* name of the file, which determines the profile where the records do not */
    size_t max_line_bytes; /* 0 is TOYSPEC_MAX_LINE_BYTES */
};

typedef void toyspec_each(void *context, const struct toyspec_record *record);

/* Reads a stream from a descriptor to its end, calling each for every record. Returns NULL, or why the mode refuses the
 * stream; the report is filled in either way. "out of memory" and "read failed" leave the report undefined. */
const char *toyspec_read(int descriptor, const struct toyspec_options *options, toyspec_each *each, void *context,
                         struct toyspec_report *report);

/* Reads the file at a path, which may be a bundle's directory: then run.json beside the stream helps to determine the profile.
 * The reason that is returned begins with the path; report.state is NULL where the file could not be read. */
const char *toyspec_read_file(const char *path, const struct toyspec_options *options, toyspec_each *each, void *context,
                              struct toyspec_report *report);

/* Gives the ranks from 1 on that have a stream in the directory of a run, in order, in memory that the caller frees.
 * Returns NULL, or why the directory could not be read. */
const char *toyspec_ranks(const char *directory, uint32_t **ranks, size_t *count);
/* Writes the name of the stream of a rank, which toyspec_read_file reads in the directory of its run. */
void toyspec_rank_file(uint32_t rank, char name[32]);

/* Computes the views of a run: an object with the members that the chapter Views of the specification names, each where
 * it has a value; {} for a stream in a format that is not known. Null stands for a number that was not finite. Unreadable
 * lines and invalid records are left out. The summary is freed by toyspec_free. Returns NULL, or why the file could not be
 * read. */
const char *toyspec_summarize(int descriptor, const struct toyspec_options *options, struct toyspec_value *summary,
                              struct toyspec_report *report);
/* Does so for the file at a path, which may be a bundle's directory: then with the views of all its ranks. */
const char *toyspec_summarize_file(const char *path, const struct toyspec_options *options, struct toyspec_value *summary,
                                   struct toyspec_report *report);

/* Returns the first rule that makes a line unreadable, NULL for a readable one. */
const char *toyspec_validate_line(const char *line, size_t length, bool first);

/* Returns whether a number at a place is typed as number by the schema: 64 or 32 bits, 0 where it is not.
 * The path names members from the record down; toyspec_item stands for an item of an array. */
extern const struct toyspec_text toyspec_item;
int toyspec_number_width(const char *profile, const struct toyspec_value *record, const struct toyspec_text *path, size_t depth);

/* Parses one JSON text without checking it as a record: what toyspec_validate_line calls readable never fails. The value is freed
 * by toyspec_free. Returns false for what is not JSON and where memory ran out. */
bool toyspec_parse(const char *text, size_t length, struct toyspec_value *value);
void toyspec_free(struct toyspec_value *value);

#ifdef __cplusplus
}
#endif

#endif
