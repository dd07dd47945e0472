#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#ifdef __APPLE__
#define _DARWIN_C_SOURCE /* flock */
#else
#define _DEFAULT_SOURCE /* flock */
#endif

#include "toyspec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The value of a macro as part of a string. */
#define LITERAL(macro) LITERAL_OF(macro)
#define LITERAL_OF(text) #text

/* ---- Tables ---- */

enum form { INTEGER, NUMBER, BINARY32, STRING, BOOLEAN, OBJECT, ARRAY, MAP, OPEN_MAP, ANYTHING };

struct characters { /* a string of so many characters, none of them in a range */
    size_t least, most;
    uint32_t refused[8][2];
};

struct field {
    const char *name;
    enum form form;
    bool required, nullable, limited, date_time, always; /* always: an empty map is written where there is none */
    double least, greatest;
    size_t items; /* number of items of an array; 0 for any */
    const char *const *values;
    const struct characters *characters;
    const struct field *inner; /* members of an object; the one type of items or of values of a map */
    size_t count;
};

struct kind {
    const char *name;
    bool is_record;
    const struct field *fields;
    size_t count;
};

struct profile {
    const char *name, *tag, *file, *last;
    bool whole_numbers; /* 1.0 and 1e3 are integers where the schema asks for one */
    const struct kind *kinds;
    size_t count;
};

#include "toyspec_tables.h"

static const struct field anything = {.name = "", .form = ANYTHING, .nullable = true};

static const struct profile *profile_named(const char *name) {
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (strcmp(profiles[i].name, name) == 0) return &profiles[i];
    return NULL;
}

static bool text_is(struct toyspec_text text, const char *word) {
    return text.length == strlen(word) && memcmp(text.bytes, word, text.length) == 0;
}

/* Returns the kind of a record, NULL for one that the profile does not know. */
static const struct kind *kind_of(const struct profile *profile, const struct toyspec_value *record) {
    const struct toyspec_value *tag = *profile->tag ? toyspec_get(record, profile->tag) : NULL;
    if (*profile->tag && (!tag || tag->type != TOYSPEC_STRING)) return NULL;
    for (size_t i = 0; i < profile->count; i++)
        if (profile->kinds[i].is_record && (!tag || text_is(tag->text, profile->kinds[i].name))) return &profile->kinds[i];
    return NULL;
}

static const struct kind *kind_named(const struct profile *profile, const char *name) {
    for (size_t i = 0; i < profile->count; i++)
        if (strcmp(profile->kinds[i].name, name) == 0) return &profile->kinds[i];
    return NULL;
}

static const struct field *field_named(const struct kind *kind, const char *name) {
    for (size_t i = 0; kind && i < kind->count; i++)
        if (strcmp(kind->fields[i].name, name) == 0) return &kind->fields[i];
    return NULL;
}

/* ---- Values ---- */

const struct toyspec_text toyspec_item = {NULL, 0};

struct toyspec_value toyspec_null(void) { return (struct toyspec_value){.type = TOYSPEC_NULL}; }
struct toyspec_value toyspec_boolean(bool value) { return (struct toyspec_value){.type = TOYSPEC_BOOLEAN, .boolean = value}; }
struct toyspec_value toyspec_integer(int64_t value) { return (struct toyspec_value){.type = TOYSPEC_INTEGER, .integer = value}; }
struct toyspec_value toyspec_number(double value) { return (struct toyspec_value){.type = TOYSPEC_FLOAT, .number = value}; }
struct toyspec_value toyspec_string(const char *value) {
    return (struct toyspec_value){.type = TOYSPEC_STRING, .text = {value, strlen(value)}};
}
struct toyspec_value toyspec_object(struct toyspec_member *members, size_t count) {
    return (struct toyspec_value){.type = TOYSPEC_OBJECT, .members = members, .count = count};
}
struct toyspec_value toyspec_array(struct toyspec_value *items, size_t count) {
    return (struct toyspec_value){.type = TOYSPEC_ARRAY, .items = items, .count = count};
}
struct toyspec_member toyspec_member(const char *key, struct toyspec_value value) {
    return (struct toyspec_member){{key, strlen(key)}, value};
}

const struct toyspec_value *toyspec_get(const struct toyspec_value *object, const char *key) {
    if (object->type != TOYSPEC_OBJECT) return NULL;
    for (size_t i = object->count; i-- > 0;)
        if (text_is(object->members[i].key, key)) return &object->members[i].value;
    return NULL;
}

/* ---- Line validation: one line as bytes and as JSON, without recursion ---- */

struct scanner {
    const unsigned char *at, *end;
    const char *stop;  /* invalid-json or nested-too-deep */
    const char *problem; /* the first of non-finite-number and lone-surrogate */
};

static int peek(const struct scanner *s) { return s->at < s->end ? *s->at : -1; }

static void skip_space(struct scanner *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r' || *s->at == '\n')) s->at++;
}

static void fail(struct scanner *s) {
    if (!s->stop) s->stop = "invalid-json";
}

static void note(struct scanner *s, const char *rule) {
    if (!s->problem) s->problem = rule;
}

static bool scan_word(struct scanner *s, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0) {
        fail(s);
        return false;
    }
    s->at += length;
    return true;
}

static void scan_digits(struct scanner *s) {
    const unsigned char *start = s->at;
    while (peek(s) >= '0' && peek(s) <= '9') s->at++;
    if (s->at == start) fail(s);
}

/* Returns whether decimal text overflows binary64: by the place of its first digit, and by its digits near the limit. */
static bool overflows(const char *text, size_t length) {
    /* The middle between the largest binary64 number and 2^1024, from which on numbers round to infinity. */
    static const char limit[] =
        "17976931348623158079372897140530341507993413271003782693617377898044496829276475094664901797758720709633028641669288791"
        "09465555478519404026306574886715058206819089020007083836762738548458177115317644757302700698555713669596228429148198608"
        "34936475292719074168444365510704342711559699508093042880";
    const long limit_point = 309;
    long exponent = 0, point = 0;
    size_t end = 0;
    while (end < length && text[end] != 'e' && text[end] != 'E') end++;
    if (end < length) {
        bool negative = text[end + 1] == '-';
        for (size_t i = end + 1 + (text[end + 1] == '-' || text[end + 1] == '+'); i < length; i++)
            if (exponent < 100000000) exponent = exponent * 10 + (text[i] - '0');
        if (negative) exponent = -exponent;
    }
    bool after_point = false, started = false;
    size_t compared = 0;
    int order = 0; /* of the digits so far against those of the limit */
    for (size_t i = text[0] == '-'; i < end; i++) {
        if (text[i] == '.') {
            after_point = true;
            continue;
        }
        started = started || text[i] != '0';
        if (!after_point && started) point++;
        if (after_point && !started) point--;
        if (!started) continue;
        char digit = compared < sizeof limit - 1 ? limit[compared] : '0';
        compared++;
        if (order == 0 && text[i] != digit) order = text[i] < digit ? -1 : 1;
    }
    if (!started) return false;
    if (order == 0 && compared < sizeof limit - 1) order = -1; /* the limit has digits left, none of them zero alone */
    long place = point + exponent;
    return place > limit_point || (place == limit_point && order >= 0);
}

static void scan_number(struct scanner *s) {
    const unsigned char *start = s->at;
    if (peek(s) == '-') s->at++;
    if (peek(s) == '0') s->at++;
    else scan_digits(s);
    if (peek(s) == '.') {
        s->at++;
        scan_digits(s);
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-') s->at++;
        scan_digits(s);
    }
    if (!s->stop && overflows((const char *)start, (size_t)(s->at - start))) note(s, "non-finite-number");
}

static int hex_digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the code of four hexadecimal digits, -1 for anything else. */
static long hex_code(const unsigned char *at, const unsigned char *end) {
    long code = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0) return -1;
        code = code * 16 + digit;
    }
    return code;
}

static void scan_string(struct scanner *s) {
    bool high = false; /* the escape before this place is the first half of a pair */
    s->at++;
    for (;;) {
        int c = peek(s);
        if (c < 0x20) {
            fail(s);
            return;
        }
        long code = c == '\\' && s->end - s->at > 1 && s->at[1] == 'u' ? hex_code(s->at + 2, s->end) : -2;
        if (code == -1) {
            fail(s);
            return;
        }
        bool low = code >= 0xDC00 && code < 0xE000;
        if (high != low) note(s, "lone-surrogate");
        high = code >= 0xD800 && code < 0xDC00;
        if (code >= 0) {
            s->at += 6;
            continue;
        }
        s->at++;
        if (c == '"') return;
        if (c == '\\') {
            if (peek(s) < 0 || !strchr("\"\\/bfnrt", peek(s)) || peek(s) == 0) {
                fail(s);
                return;
            }
            s->at++;
        }
    }
}

static void scan_scalar(struct scanner *s) {
    int c = peek(s);
    if (c == '"') scan_string(s);
    else if (c == 't') scan_word(s, "true");
    else if (c == 'f') scan_word(s, "false");
    else if (c == 'n') scan_word(s, "null");
    else if (c == 'N' || c == 'I' || (c == '-' && s->end - s->at > 1 && s->at[1] == 'I')) {
        if (scan_word(s, c == 'N' ? "NaN" : c == 'I' ? "Infinity" : "-Infinity")) note(s, "non-finite-number");
    } else if (c == '-' || (c >= '0' && c <= '9')) scan_number(s);
    else fail(s);
}

static void scan_key(struct scanner *s) {
    skip_space(s);
    if (peek(s) != '"') {
        fail(s);
        return;
    }
    scan_string(s);
    skip_space(s);
    if (peek(s) != ':') fail(s);
    else s->at++;
    skip_space(s);
}

static void scan_text(struct scanner *s) {
    char open[TOYSPEC_MAX_DEPTH]; /* the ends that are waited for */
    size_t depth = 0;
    bool fresh = false; /* a bracket was just opened */
    for (;;) {
        skip_space(s);
        if (fresh && peek(s) == open[depth - 1]) {
            s->at++;
            depth--;
        } else {
            if (depth > 0 && open[depth - 1] == '}') scan_key(s);
            if (s->stop) return;
            int c = peek(s);
            if (c == '{' || c == '[') {
                if (depth == TOYSPEC_MAX_DEPTH) {
                    s->stop = "nested-too-deep";
                    return;
                }
                open[depth++] = c == '{' ? '}' : ']';
                s->at++;
                fresh = true;
                continue;
            }
            scan_scalar(s);
        }
        fresh = false;
        for (;; s->at++) {
            if (s->stop) return;
            skip_space(s);
            if (depth == 0) {
                if (s->at < s->end) fail(s);
                return;
            }
            if (peek(s) == ',') break;
            if (peek(s) != open[depth - 1]) fail(s);
            else depth--;
        }
        s->at++;
    }
}

static bool is_utf8(const unsigned char *at, const unsigned char *end) {
    while (at < end) {
        if (*at < 0x80) {
            at++;
            continue;
        }
        int more = *at >= 0xC2 && *at < 0xE0 ? 1 : *at >= 0xE0 && *at < 0xF0 ? 2 : *at >= 0xF0 && *at < 0xF5 ? 3 : 0;
        if (more == 0 || end - at <= more) return false;
        unsigned char low = *at == 0xE0 ? 0xA0 : *at == 0xF0 ? 0x90 : 0x80;
        unsigned char high = *at == 0xED ? 0x9F : *at == 0xF4 ? 0x8F : 0xBF;
        if (at[1] < low || at[1] > high) return false;
        for (int i = 2; i <= more; i++)
            if ((at[i] & 0xC0) != 0x80) return false;
        at += more + 1;
    }
    return true;
}

const char *toyspec_validate_line(const char *line, size_t length, bool first) {
    const unsigned char *start = (const unsigned char *)line;
    if (first && length >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) return "byte-order-mark";
    if (memchr(line, 0, length)) return "nul-bytes";
    if (!is_utf8(start, start + length)) return "invalid-utf8";
    struct scanner s = {.at = start, .end = start + length};
    skip_space(&s);
    bool object = peek(&s) == '{';
    scan_text(&s);
    if (s.stop) return s.stop;
    return object ? s.problem : "not-an-object";
}

static bool is_blank(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    return true;
}

/* ---- Parsing what was validated ---- */

static size_t put_utf8(char *out, long code) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Returns the characters of a string in memory of its own, which is never longer than its spelling. */
static bool parse_string(struct scanner *s, struct toyspec_text *text) {
    const unsigned char *at = s->at + 1;
    scan_string(s);
    if (s->stop) return false;
    const unsigned char *end = s->at - 1;
    char *out = malloc((size_t)(end - at) + 1), *start = out;
    if (!out) return false;
    while (at < end) {
        if (*at != '\\') {
            *out++ = (char)*at++;
            continue;
        }
        static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
        const char *letter = strchr(letters, at[1]);
        if (at[1] != 'u') {
            *out++ = letter ? meant[letter - letters] : (char)at[1];
            at += 2;
            continue;
        }
        long code = hex_code(at + 2, end);
        at += 6;
        if (code >= 0xD800 && code < 0xDC00 && end - at >= 6) {
            long low = hex_code(at + 2, end);
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            at += 6;
        }
        out += put_utf8(out, code);
    }
    *out = 0;
    *text = (struct toyspec_text){start, (size_t)(out - start)};
    return true;
}

static double read_number(const char *text, size_t length);

/* Deeper than a record can be, so that records fit into other texts; the stack holds it with ease. */
enum { PARSE_DEPTH = 4 * TOYSPEC_MAX_DEPTH };

static bool parse_value(struct scanner *s, struct toyspec_value *value, int depth);

static bool parse_members(struct scanner *s, struct toyspec_value *value, int depth) {
    bool object = *s->at == '{';
    size_t room = 0;
    *value = (struct toyspec_value){.type = object ? TOYSPEC_OBJECT : TOYSPEC_ARRAY};
    s->at++;
    skip_space(s);
    while (peek(s) != (object ? '}' : ']')) {
        if (value->count == room) {
            room = room ? room * 2 : 4;
            void *grown = object ? realloc(value->members, room * sizeof *value->members)
                                 : realloc(value->items, room * sizeof *value->items);
            if (!grown) return false;
            if (object) value->members = grown;
            else value->items = grown;
        }
        struct toyspec_text key = {NULL, 0};
        if (object) {
            if (peek(s) != '"' || !parse_string(s, &key)) return false;
            skip_space(s);
            if (peek(s) != ':') {
                free((char *)key.bytes);
                return false;
            }
            s->at++;
        }
        struct toyspec_value item = toyspec_null();
        bool good = parse_value(s, &item, depth + 1);
        if (object) value->members[value->count++] = (struct toyspec_member){key, item};
        else value->items[value->count++] = item;
        skip_space(s);
        if (!good) return false;
        if (peek(s) == ',') {
            s->at++;
            skip_space(s);
        }
    }
    s->at++;
    return true;
}

static bool parse_value(struct scanner *s, struct toyspec_value *value, int depth) {
    skip_space(s);
    int c = peek(s);
    if (c == '{' || c == '[') return depth < PARSE_DEPTH && parse_members(s, value, depth);
    if (c == '"') {
        value->type = TOYSPEC_STRING;
        value->owned = parse_string(s, &value->text);
        return value->owned;
    }
    const unsigned char *start = s->at;
    scan_scalar(s);
    if (s->stop) return false;
    struct toyspec_text text = {(const char *)start, (size_t)(s->at - start)};
    if (c == 't' || c == 'f') *value = toyspec_boolean(c == 't');
    else if (c == 'n') *value = toyspec_null();
    else {
        bool fraction = memchr(text.bytes, '.', text.length) || memchr(text.bytes, 'e', text.length) || memchr(text.bytes, 'E', text.length);
        *value = (struct toyspec_value){.type = fraction ? TOYSPEC_FLOAT : TOYSPEC_INTEGER, .text = text};
        value->number = read_number(text.bytes, text.length);
    }
    return true;
}

bool toyspec_parse(const char *text, size_t length, struct toyspec_value *value) {
    struct scanner s = {.at = (const unsigned char *)text, .end = (const unsigned char *)text + length};
    *value = toyspec_null();
    bool good = parse_value(&s, value, 0);
    skip_space(&s);
    if (good && s.at == s.end) return true;
    toyspec_free(value);
    *value = toyspec_null();
    return false;
}

void toyspec_free(struct toyspec_value *value) {
    if (value->owned) free((char *)value->text.bytes);
    for (size_t i = 0; i < value->count; i++) {
        if (value->type == TOYSPEC_OBJECT) {
            free((char *)value->members[i].key.bytes);
            toyspec_free(&value->members[i].value);
        } else toyspec_free(&value->items[i]);
    }
    free(value->members);
    free(value->items);
}

/* ---- Numbers ---- */

/* Reads decimal text as the nearest binary64 number, whatever the locale calls the point. */
static double read_number(const char *text, size_t length) {
    char small[128], *copy = length < sizeof small - 8 ? small : malloc(length + 8);
    if (!copy) return NAN;
    const char *point = localeconv()->decimal_point;
    size_t point_length = strlen(point), out = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && point_length < 8) {
            memcpy(copy + out, point, point_length);
            out += point_length;
        } else copy[out++] = text[i];
    }
    copy[out] = 0;
    double number = strtod(copy, NULL);
    if (copy != small) free(copy);
    if (length == 2 && number == 0) number = 0; /* digits are an integer first, which has no sign of zero */
    return number;
}

struct decimal { /* 0.d1d2d3… times ten to the power of point */
    char digits[24];
    int count, point;
};

/* Gives the number in so many digits, correctly rounded. The number is positive. */
static struct decimal rounded(double number, int count) {
    char text[48];
    struct decimal d = {.count = count};
    snprintf(text, sizeof text, "%.*e", count - 1, number);
    const char *at = text;
    int found = 0;
    for (; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') d.digits[found++] = *at;
    d.point = atoi(at + 1) + 1;
    return d;
}

/* Adds one to the last digit, or takes one away. */
static struct decimal neighbour(struct decimal d, int step) {
    int i = d.count - 1;
    char from = step > 0 ? '9' : '0', to = step > 0 ? '0' : '9';
    while (i >= 0 && d.digits[i] == from) d.digits[i--] = to;
    if (i >= 0) d.digits[i] = (char)(d.digits[i] + step);
    else { /* 999 became 1000, in as many digits */
        d.digits[0] = '1';
        d.point++;
    }
    return d;
}

static bool reads_back(const struct decimal *d, double number, bool narrow) {
    char text[48];
    /* Digits without a point read the same in every locale. */
    snprintf(text, sizeof text, "%.*se%d", d->count, d->digits, d->point - d->count);
    double back = strtod(text, NULL);
    /* A reader rounds a binary32 field to binary64 first; beyond the largest binary32 there is no value to round to. */
    return narrow ? fabs(back) < TOYSPEC_BINARY32_LIMIT && (float)back == (float)number : back == number;
}

/* Gives the shortest digits that read back, of several the closest. */
static struct decimal shortest(double number, bool narrow) {
    /* Of a normal number, as many digits as any decimal keeps show every shorter form, with zeros after it. */
    bool normal = number >= (narrow ? (double)FLT_MIN : DBL_MIN);
    int most = narrow ? 9 : 17, kept = narrow ? FLT_DIG : DBL_DIG;
    for (int count = normal ? kept : 1; count < most; count++) {
        struct decimal d = rounded(number, count);
        if (reads_back(&d, number, narrow)) {
            while (d.count > 1 && d.digits[d.count - 1] == '0') d.count--;
            return d;
        }
        /* Below a power of two numbers lie closer: the right digits can be on the other side of the nearest. */
        struct decimal above = neighbour(d, 1), below = neighbour(d, -1);
        if (reads_back(&above, number, narrow)) return above;
        if (below.digits[0] != '0' && reads_back(&below, number, narrow)) return below;
    }
    return rounded(number, most);
}

static size_t number_text(double number, bool narrow, char text[32]) {
    char *out = text;
    if (signbit(number)) *out++ = '-';
    if (number == 0) {
        memcpy(out, "0.0", 4);
        return (size_t)(out - text) + 3;
    }
    struct decimal d = shortest(fabs(number), narrow);
    if (d.point > 16 || d.point <= -5) {
        *out++ = d.digits[0];
        if (d.count > 1) {
            *out++ = '.';
            memcpy(out, d.digits + 1, (size_t)d.count - 1);
            out += d.count - 1;
        }
        out += snprintf(out, 8, "e%d", d.point - 1);
        return (size_t)(out - text);
    }
    for (int place = d.point < 1 ? d.point : 0; place < (d.count > d.point ? d.count : d.point + 1); place++) {
        if (place == d.point && place <= 0) {
            *out++ = '0';
            *out++ = '.';
        } else if (place == d.point) *out++ = '.';
        *out++ = place >= 0 && place < d.count ? d.digits[place] : '0';
    }
    *out = 0;
    return (size_t)(out - text);
}

size_t toyspec_binary64_text(double number, char text[32]) { return number_text(number, false, text); }
size_t toyspec_binary32_text(float number, char text[32]) { return number_text((double)number, true, text); }

/* ---- Canonical form ---- */

struct encoder {
    struct toyspec_buffer *out;
    const char *refused;
};

static void put(struct encoder *e, const char *bytes, size_t length) {
    struct toyspec_buffer *out = e->out;
    if (e->refused || length == 0) return;
    if (out->capacity - out->length < length) {
        size_t capacity = (out->length + length) * 2 + 64;
        char *grown = realloc(out->bytes, capacity);
        if (!grown) {
            e->refused = "out of memory";
            return;
        }
        out->bytes = grown;
        out->capacity = capacity;
    }
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
}

static void refuse(struct encoder *e, const char *reason) {
    if (!e->refused) e->refused = reason;
}

static void put_string(struct encoder *e, struct toyspec_text text) {
    const unsigned char *at = (const unsigned char *)text.bytes, *end = at + text.length;
    if (!is_utf8(at, end)) refuse(e, "a string is not UTF-8");
    put(e, "\"", 1);
    while (at < end) {
        const unsigned char *plain = at;
        while (at < end && *at >= 0x20 && *at != '"' && *at != '\\') at++;
        put(e, (const char *)plain, (size_t)(at - plain));
        if (at == end) break;
        static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
        const char *letter = *at ? strchr(special, *at) : NULL;
        char escape[8];
        int length = letter ? snprintf(escape, sizeof escape, "\\%c", letters[letter - special])
                            : snprintf(escape, sizeof escape, "\\u%04x", *at);
        put(e, escape, (size_t)length);
        at++;
    }
    put(e, "\"", 1);
}

static bool two_digits(const char *at, int most, int *value) {
    if (at[0] < '0' || at[0] > '9' || at[1] < '0' || at[1] > '9') return false;
    *value = (at[0] - '0') * 10 + at[1] - '0';
    return *value <= most;
}

/* Returns whether text is a date and time of RFC 3339 that exist, with a zone. */
static bool is_date_time(struct toyspec_text text) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const char *at = text.bytes, *end = at + text.length;
    int century, year, month, day, hour, minute, second, zone_hour = 0, zone_minute = 0;
    if (text.length < 20 || at[4] != '-' || at[7] != '-' || at[10] != 'T' || at[13] != ':' || at[16] != ':') return false;
    if (!two_digits(at, 99, &century) || !two_digits(at + 2, 99, &year) || !two_digits(at + 5, 12, &month) ||
        !two_digits(at + 8, 31, &day) || !two_digits(at + 11, 23, &hour) || !two_digits(at + 14, 59, &minute) ||
        !two_digits(at + 17, 60, &second) || month == 0 || day == 0)
        return false;
    year += century * 100;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > days[month - 1] + (leap && month == 2)) return false;
    at += 19;
    if (*at == '.') {
        const char *fraction = ++at;
        while (at < end && *at >= '0' && *at <= '9') at++;
        if (at == fraction) return false;
    }
    int sign = 0;
    if (end - at == 6 && (*at == '+' || *at == '-') && at[3] == ':') {
        sign = *at == '+' ? 1 : -1;
        if (!two_digits(at + 1, 23, &zone_hour) || !two_digits(at + 4, 59, &zone_minute)) return false;
    } else if (end - at != 1 || *at != 'Z') return false;
    int utc = ((hour * 60 + minute - sign * (zone_hour * 60 + zone_minute)) % 1440 + 1440) % 1440;
    return second < 60 || utc == 1439; /* a leap second ends a day in UTC */
}

static bool has_characters(struct toyspec_text text, const struct characters *allowed) {
    size_t count = 0;
    for (size_t i = 0; i < text.length; count++) {
        unsigned char lead = (unsigned char)text.bytes[i];
        size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        uint32_t code = length == 1 ? lead : lead & (0xFFu >> (length + 1));
        for (size_t j = 1; j < length && i + j < text.length; j++) code = code << 6 | ((unsigned char)text.bytes[i + j] & 0x3F);
        for (size_t j = 0; allowed->refused[j][0] <= allowed->refused[j][1]; j++)
            if (code >= allowed->refused[j][0] && code <= allowed->refused[j][1]) return false;
        i += length;
    }
    return count >= allowed->least && count <= allowed->most;
}

static void check_string(struct encoder *e, struct toyspec_text text, const struct field *field) {
    if (field->values) {
        const char *const *value = field->values;
        while (*value && !text_is(text, *value)) value++;
        if (!*value) refuse(e, "a string is not one of those allowed");
    }
    if (e->refused || !is_utf8((const unsigned char *)text.bytes, (const unsigned char *)text.bytes + text.length)) return;
    if (field->characters && !has_characters(text, field->characters)) refuse(e, "a string does not have the required form");
    if (field->date_time && !is_date_time(text)) refuse(e, "a string is not a date-time with a zone that exists");
}

static void check_number(struct encoder *e, double number, const struct field *field) {
    if (field->limited && !(number >= field->least && number <= field->greatest)) refuse(e, "a number is outside its range");
}

static void put_null(struct encoder *e, const struct field *field) {
    if (!field->nullable) refuse(e, "null for a field that does not admit it");
    put(e, "null", 4);
}

/* Returns whether text is an integer by the grammar of JSON. */
static bool is_integer(struct toyspec_text text) {
    size_t i = text.length > 0 && text.bytes[0] == '-', first = i;
    while (i < text.length && text.bytes[i] >= '0' && text.bytes[i] <= '9') i++;
    return i == text.length && i > first && (text.bytes[first] != '0' || i == first + 1);
}

static void put_integer(struct encoder *e, const struct toyspec_value *value, const struct field *field) {
    char digits[24];
    struct toyspec_text text = value->text;
    if (!text.bytes) text = (struct toyspec_text){digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)value->integer)};
    if (text_is(text, "-0")) text = (struct toyspec_text){"0", 1};
    check_number(e, value->text.bytes ? read_number(text.bytes, text.length) : (double)value->integer, field);
    put(e, text.bytes, text.length);
}

static void put_number(struct encoder *e, const struct toyspec_value *value, const struct field *field) {
    bool open = field->form == ANYTHING, digits = value->type == TOYSPEC_INTEGER && value->text.bytes;
    if (digits && !is_integer(value->text)) {
        refuse(e, "an integer is not written in the digits of JSON");
        return;
    }
    if (digits && overflows(value->text.bytes, value->text.length)) {
        refuse(e, "an integer overflows binary64");
        return;
    }
    if (value->type == TOYSPEC_INTEGER && (open || field->form == INTEGER)) {
        put_integer(e, value, field);
        return;
    }
    if (!open && field->form != NUMBER && field->form != BINARY32) {
        refuse(e, "a number for a field of another type");
        return;
    }
    double number = value->number;
    if (value->type == TOYSPEC_INTEGER && !value->text.bytes) number = (double)value->integer;
    else if (value->type == TOYSPEC_INTEGER) number = read_number(value->text.bytes, value->text.length);
    if (field->form == BINARY32) number = (double)(float)number;
    if (!isfinite(number)) {
        put_null(e, field);
        return;
    }
    check_number(e, number, field);
    char text[32];
    size_t length = field->form == BINARY32 ? toyspec_binary32_text((float)number, text) : toyspec_binary64_text(number, text);
    put(e, text, length);
}

static int by_key(const void *a, const void *b) {
    const struct toyspec_text *x = &((const struct toyspec_member *)a)->key, *y = &((const struct toyspec_member *)b)->key;
    int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* Sorts by key; few members, as in the step path, without the memory that qsort may take. */
static void sort_members(struct toyspec_member *members, size_t count) {
    if (count > 32) {
        qsort(members, count, sizeof *members, by_key);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        struct toyspec_member member = members[i];
        size_t j = i;
        for (; j > 0 && by_key(&members[j - 1], &member) > 0; j--) members[j] = members[j - 1];
        members[j] = member;
    }
}

static void put_value(struct encoder *e, struct toyspec_value *value, const struct field *field, int depth);

static void put_member(struct encoder *e, struct toyspec_member *member, const struct field *field, int depth, bool *any) {
    put(e, *any ? "," : "{", 1);
    *any = true;
    put_string(e, member->key);
    put(e, ":", 1);
    put_value(e, &member->value, field, depth);
}

/* Writes an object: declared members in their order, then all others by the bytes of their keys. */
static void put_object(struct encoder *e, struct toyspec_value *value, const struct field *fields, size_t count,
                       const struct field *others, int depth) {
    bool any = false;
    if (depth > TOYSPEC_MAX_DEPTH) {
        refuse(e, "nested deeper than " LITERAL(TOYSPEC_MAX_DEPTH));
        return;
    }
    sort_members(value->members, value->count);
    for (size_t i = 1; i < value->count; i++)
        if (by_key(&value->members[i - 1], &value->members[i]) == 0) refuse(e, "a key occurs twice in one object");
    for (size_t i = 0; i < count; i++) {
        size_t j = 0;
        while (j < value->count && !text_is(value->members[j].key, fields[i].name)) j++;
        if (j < value->count) put_member(e, &value->members[j], &fields[i], depth, &any);
        else if (fields[i].required) refuse(e, "a required key is missing");
        else if (fields[i].always) {
            struct toyspec_member empty = toyspec_member(fields[i].name, toyspec_object(NULL, 0));
            put_member(e, &empty, &fields[i], depth, &any);
        }
    }
    for (size_t j = 0; j < value->count; j++) {
        size_t i = 0;
        while (i < count && !text_is(value->members[j].key, fields[i].name)) i++;
        if (i == count) put_member(e, &value->members[j], others, depth, &any);
    }
    put(e, any ? "}" : "{}", any ? 1 : 2);
}

static void put_array(struct encoder *e, struct toyspec_value *value, const struct field *field, int depth) {
    if (depth > TOYSPEC_MAX_DEPTH) {
        refuse(e, "nested deeper than " LITERAL(TOYSPEC_MAX_DEPTH));
        return;
    }
    if (field->items && value->count != field->items) refuse(e, "an array has another number of items");
    put(e, "[", 1);
    for (size_t i = 0; i < value->count; i++) {
        if (i) put(e, ",", 1);
        put_value(e, &value->items[i], field->form == ARRAY ? field->inner : &anything, depth);
    }
    put(e, "]", 1);
}

static void put_value(struct encoder *e, struct toyspec_value *value, const struct field *field, int depth) {
    static const enum form wanted[] = {[TOYSPEC_BOOLEAN] = BOOLEAN, [TOYSPEC_STRING] = STRING, [TOYSPEC_ARRAY] = ARRAY};
    if (e->refused) return;
    switch (value->type) {
    case TOYSPEC_NULL: put_null(e, field); return;
    case TOYSPEC_INTEGER:
    case TOYSPEC_FLOAT: put_number(e, value, field); return;
    case TOYSPEC_OBJECT:
        if (field->form == OBJECT) put_object(e, value, field->inner, field->count, &anything, depth + 1);
        else if (field->form == MAP) put_object(e, value, NULL, 0, field->inner, depth + 1);
        else if (field->form == OPEN_MAP || field->form == ANYTHING) put_object(e, value, NULL, 0, &anything, depth + 1);
        else refuse(e, "an object for a field of another type");
        return;
    case TOYSPEC_BOOLEAN:
    case TOYSPEC_STRING:
    case TOYSPEC_ARRAY: break;
    }
    if (field->form != ANYTHING && field->form != wanted[value->type]) {
        refuse(e, "a value for a field of another type");
        return;
    }
    if (value->type == TOYSPEC_BOOLEAN) put(e, value->boolean ? "true" : "false", value->boolean ? 4 : 5);
    else if (value->type == TOYSPEC_ARRAY) put_array(e, value, field, depth + 1);
    else {
        check_string(e, value->text, field);
        put_string(e, value->text);
    }
}

const char *toyspec_encode(const char *profile_name, struct toyspec_value *record, struct toyspec_buffer *line) {
    const struct profile *profile = profile_named(profile_name);
    struct encoder e = {.out = line};
    size_t start = line->length;
    if (!profile) return "no such profile";
    if (record->type != TOYSPEC_OBJECT) return "a record is an object";
    const struct kind *kind = kind_of(profile, record);
    const struct field tag = {.name = profile->tag, .form = STRING, .required = true};
    if (kind) put_object(&e, record, kind->fields, kind->count, &anything, 1);
    else put_object(&e, record, &tag, 1, &anything, 1);
    if (line->length - start > TOYSPEC_MAX_LINE_BYTES) refuse(&e, "the line is longer than " LITERAL(TOYSPEC_MAX_LINE_BYTES) " bytes");
    put(&e, "\n", 1);
    if (e.refused) line->length = start;
    return e.refused;
}

int toyspec_number_width(const char *profile_name, const struct toyspec_value *record, const struct toyspec_text *path, size_t depth) {
    const struct profile *profile = profile_named(profile_name);
    const struct kind *kind = profile ? kind_of(profile, record) : NULL;
    if (!kind) return 0;
    const struct field *field = NULL, *inner = kind->fields;
    size_t count = kind->count;
    enum form form = OBJECT;
    for (size_t i = 0; i < depth; i++) {
        if (form == OBJECT) {
            field = NULL;
            for (size_t j = 0; j < count; j++)
                if (path[i].bytes && text_is(path[i], inner[j].name)) field = &inner[j];
        } else field = form == (path[i].bytes ? MAP : ARRAY) ? inner : NULL;
        if (!field) return 0;
        form = field->form;
        inner = field->inner;
        count = field->count;
    }
    return form == NUMBER ? 64 : form == BINARY32 ? 32 : 0;
}

/* ---- Reading ---- */

struct reading {
    const struct toyspec_options *options;
    const struct profile *profile; /* NULL until it is known, and where the format is not known */
    const char *beside;            /* directory of the file, NULL for a stream without one */
    struct toyspec_report *report;
    toyspec_each *each;
    void *context;
    size_t limit;
    bool last_ends, stopped;
    const char *failure;
    uint64_t line, offset;   /* of the line that is being read */
    uint64_t length;         /* of it so far */
    struct toyspec_buffer held; /* of it, while it is within the limit */
};

static void add_gap(struct reading *r, struct toyspec_gap gap, bool rest) {
    r->report->gap_bytes += gap.length;
    if (r->report->gap_count < TOYSPEC_MAX_LISTED_GAPS || rest) r->report->gaps[r->report->gap_count++] = gap;
}

static char *joined(const char *directory, const char *name) {
    size_t length = strlen(directory) + strlen(name) + 2;
    char *path = malloc(length);
    if (path) snprintf(path, length, "%s/%s", directory, name);
    return path;
}

/* Returns the directory that a path is in, in memory of its own. */
static char *directory_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *directory = strdup(slash ? path : ".");
    if (directory && slash) directory[slash == path ? 1 : slash - path] = 0;
    return directory;
}

/* Reads a whole regular file that is no longer than a line may be. */
static bool read_file(const char *path, struct toyspec_buffer *content) {
    struct stat status;
    struct encoder holder = {.out = content};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return false;
    bool good = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    char chunk[1 << 12];
    ssize_t size = 1;
    while (good && size != 0) {
        size = read(descriptor, chunk, sizeof chunk);
        if (size < 0 && errno == EINTR) continue;
        if (size > 0) put(&holder, chunk, (size_t)size);
        good = size >= 0 && !holder.refused && content->length <= TOYSPEC_MAX_LINE_BYTES;
    }
    close(descriptor);
    return good;
}

/* Parses the manifest in a directory; false where there is none that can be read. */
static bool read_manifest(const char *directory, struct toyspec_value *manifest, struct toyspec_buffer *text) {
    char *path = directory ? joined(directory, "run.json") : NULL;
    bool good = path && read_file(path, text) && text->length && !toyspec_validate_line(text->bytes, text->length, true) &&
                toyspec_parse(text->bytes, text->length, manifest);
    free(path);
    return good;
}

static bool has_manifest(const char *directory) {
    struct toyspec_value manifest = toyspec_null();
    struct toyspec_buffer text = {0};
    bool found = read_manifest(directory, &manifest, &text) && toyspec_get(&manifest, "run_id") && !toyspec_get(&manifest, "kind");
    toyspec_free(&manifest);
    free(text.bytes);
    return found;
}

/* Determines the profile by the first readable record, then by the manifest. */
static const struct profile *profile_of(const struct toyspec_value *record, const char *beside) {
    const struct toyspec_value *kind = toyspec_get(record, "kind"), *t = toyspec_get(record, "t"), *type = toyspec_get(record, "type");
    bool timed = t && (t->type == TOYSPEC_INTEGER || t->type == TOYSPEC_FLOAT);
    if (kind && kind->type == TOYSPEC_STRING && (timed || text_is(kind->text, "run_start"))) return profile_named("toy/v1");
    if (type && type->type == TOYSPEC_STRING && text_is(type->text, "scalar")) return profile_named("kaun/v1");
    if (toyspec_get(record, "step") && toyspec_get(record, "wall_time_ms")) return profile_named("metrics/v1");
    return has_manifest(beside) ? profile_named("kaun/v1") : NULL;
}

/* Determines the profile of a stream in which no readable record was found. */
static const struct profile *profile_without_record(const char *name, const char *beside, bool has_gap) {
    const char *base = name && strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    struct toyspec_text text = {base, base ? strlen(base) : 0};
    if (text.length > 3 && strcmp(base + text.length - 3, ".gz") == 0) text.length -= 3;
    const struct profile *metrics = profile_named("metrics/v1"), *toy = profile_named("toy/v1");
    if (base && text_is(text, metrics->file)) return metrics;
    if (has_manifest(beside)) return profile_named("kaun/v1");
    return has_gap && base && !text_is(text, toy->file) ? NULL : toy;
}

/* Gives a number whose value is whole the digits of an integer. */
static bool whole_number(struct toyspec_value *value) {
    double number = value->number;
    if (number != trunc(number) || !isfinite(number)) return true;
    value->type = TOYSPEC_INTEGER;
    value->text = (struct toyspec_text){NULL, 0};
    value->integer = 0;
    if (fabs(number) < 9e18) {
        value->integer = (int64_t)number;
        return true;
    }
    char *digits = malloc(320); /* binary64 has at most 309 digits before the point */
    if (!digits) return false;
    value->text = (struct toyspec_text){digits, (size_t)snprintf(digits, 320, "%.0f", number)};
    value->owned = true;
    return true;
}

/* Turns the numbers that the schema types as integer into integers where their value is whole. */
static bool whole_integers(struct toyspec_value *value, const struct field *field) {
    if (value->type == TOYSPEC_FLOAT && field->form == INTEGER) return whole_number(value);
    if (value->type == TOYSPEC_ARRAY && field->form == ARRAY)
        for (size_t i = 0; i < value->count; i++)
            if (!whole_integers(&value->items[i], field->inner)) return false;
    if (value->type != TOYSPEC_OBJECT || (field->form != OBJECT && field->form != MAP)) return true;
    for (size_t i = 0; i < value->count; i++) {
        struct toyspec_member *member = &value->members[i];
        if (member->value.type != TOYSPEC_FLOAT && member->value.type != TOYSPEC_ARRAY && member->value.type != TOYSPEC_OBJECT) continue;
        for (size_t j = 0; j < field->count; j++)
            if (field->form == MAP || text_is(member->key, field->inner[j].name))
                if (!whole_integers(&member->value, &field->inner[j])) return false;
    }
    return true;
}

static bool prepare_record(const struct profile *profile, struct toyspec_value *record) {
    const struct kind *kind = profile && profile->whole_numbers ? kind_of(profile, record) : NULL;
    if (!kind) return true;
    const struct field whole = {.form = OBJECT, .inner = kind->fields, .count = kind->count};
    return whole_integers(record, &whole);
}

static void take_record(struct reading *r) {
    struct toyspec_record record = {{r->held.bytes, r->held.length}, r->line, r->offset, toyspec_null(), NULL};
    bool good = toyspec_parse(record.raw.bytes, record.raw.length, &record.value);
    if (good && !r->profile && r->report->records == 0) r->profile = profile_of(&record.value, r->beside);
    if (!good || !prepare_record(r->profile, &record.value)) {
        toyspec_free(&record.value);
        r->failure = "out of memory";
        return;
    }
    const struct toyspec_value *tag = r->profile && *r->profile->tag ? toyspec_get(&record.value, r->profile->tag) : NULL;
    r->last_ends = tag && tag->type == TOYSPEC_STRING && text_is(tag->text, r->profile->last);
    r->report->records++;
    r->report->committed += r->length + 1;
    record.profile = r->profile ? r->profile->name : NULL;
    r->each(r->context, &record);
    toyspec_free(&record.value);
}

static void take_line(struct reading *r) {
    const char *reason = r->length > r->limit ? "line-too-long" : NULL;
    if (!reason && is_blank(r->held.bytes, r->held.length)) r->report->committed += r->length + 1;
    else if (reason || (reason = toyspec_validate_line(r->held.bytes, r->held.length, r->line == 1))) {
        add_gap(r, (struct toyspec_gap){r->line, r->offset, r->length + 1, reason}, false);
        r->stopped = strcmp(r->options->mode, "salvage") != 0;
    } else take_record(r);
    r->offset += r->length + 1;
    r->line++;
    r->length = r->held.length = 0;
}

/* Takes bytes in; what follows a stop is counted as the rest. */
static void take_bytes(struct reading *r, const char *at, size_t size) {
    const char *end = at + size;
    while (at < end && !r->stopped && !r->failure) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        size_t piece = (size_t)((feed ? feed : end) - at);
        r->length += piece;
        if (r->length <= r->limit) {
            struct encoder holder = {.out = &r->held};
            put(&holder, at, piece);
            if (holder.refused) r->failure = holder.refused;
        }
        at += piece + (feed != NULL);
        if (feed && !r->failure) take_line(r);
    }
    if (r->stopped) r->length += (uint64_t)(end - at);
}

static const char *finish(struct reading *r) {
    struct toyspec_report *report = r->report;
    const char *refused = NULL;
    if (r->stopped) {
        refused = strcmp(r->options->mode, "prefix") == 0 ? NULL : report->gaps[0].reason;
        if (r->length) add_gap(r, (struct toyspec_gap){r->line, r->offset, r->length, "stopped"}, true);
    } else report->fragment = r->length;
    if (!r->profile && !report->records) r->profile = profile_without_record(r->options->name, r->beside, report->gap_bytes > 0);
    bool torn = report->fragment || !report->records || (r->profile && *r->profile->last && !r->last_ends);
    report->profile = r->profile ? r->profile->name : NULL;
    report->state = report->gap_bytes ? "damaged" : torn ? "torn" : "complete";
    if (!refused && strcmp(r->options->mode, "strict") == 0 && strcmp(report->state, "complete") != 0) refused = report->state;
    return refused;
}

static const char *read_stream(int descriptor, const struct toyspec_options *options, const char *beside, toyspec_each *each,
                               void *context, struct toyspec_report *report) {
    struct toyspec_options given = options ? *options : (struct toyspec_options){0};
    if (!given.mode) given.mode = "tail";
    struct reading r = {.options = &given, .report = report, .each = each, .context = context, .line = 1, .beside = beside,
                        .profile = given.profile ? profile_named(given.profile) : NULL,
                        .limit = given.max_line_bytes ? given.max_line_bytes : TOYSPEC_MAX_LINE_BYTES};
    *report = (struct toyspec_report){0};
    char chunk[1 << 16];
    ssize_t size = 1;
    while (size > 0 && !r.failure) {
        size = read(descriptor, chunk, sizeof chunk);
        if (size < 0 && errno == EINTR) size = 1;
        else if (size < 0) r.failure = "read failed";
        else take_bytes(&r, chunk, (size_t)size);
    }
    free(r.held.bytes);
    return r.failure ? r.failure : finish(&r);
}

const char *toyspec_read(int descriptor, const struct toyspec_options *options, toyspec_each *each, void *context,
                         struct toyspec_report *report) {
    return read_stream(descriptor, options, NULL, each, context, report);
}

/* Returns the path of the stream in a bundle's directory, or any other path unchanged, in memory of its own. */
static char *stream_at(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) return strdup(path);
    char *stream = joined(path, profile_named("toy/v1")->file);
    if (!stream || stat(stream, &status) == 0 || errno != ENOENT) return stream;
    free(stream);
    return joined(path, profile_named("metrics/v1")->file);
}

static _Thread_local char message[4096 + 512];

/* Returns the reason with the path before it, valid until the next call in this thread; NULL where there is none. */
static const char *named(const char *path, const char *reason) {
    if (!reason || reason == message) return reason; /* it has a path already */
    snprintf(message, sizeof message, "%s: %s", path, reason);
    return message;
}

const char *toyspec_read_file(const char *path, const struct toyspec_options *options, toyspec_each *each, void *context,
                              struct toyspec_report *report) {
    struct toyspec_options given = options ? *options : (struct toyspec_options){0};
    char *stream = stream_at(path), *beside = stream ? directory_of(stream) : NULL;
    *report = (struct toyspec_report){0};
    int descriptor = beside ? open(stream, O_RDONLY | O_CLOEXEC) : -1;
    const char *reason = beside ? strerror(errno) : "out of memory";
    if (!given.name) given.name = stream;
    if (descriptor >= 0) {
        reason = read_stream(descriptor, &given, beside, each, context, report);
        close(descriptor);
    }
    reason = named(stream ? stream : path, reason);
    free(stream);
    free(beside);
    return reason;
}

/* ---- The streams of other ranks ---- */

void toyspec_rank_file(uint32_t rank, char name[32]) {
    snprintf(name, 32, rank ? "events.rank-%lu.jsonl" : "events.jsonl", (unsigned long)rank);
}

/* Returns the rank whose stream has a name, 0 for a name of another form. */
static uint32_t rank_named(const char *name) {
    char again[32];
    if (strncmp(name, "events.rank-", 12) != 0 || name[12] < '1' || name[12] > '9') return 0;
    unsigned long rank = strtoul(name + 12, NULL, 10);
    if (rank > 999999999) return 0;
    toyspec_rank_file((uint32_t)rank, again);
    return strcmp(name, again) == 0 ? (uint32_t)rank : 0;
}

static int by_number(const void *a, const void *b) {
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

const char *toyspec_ranks(const char *directory, uint32_t **ranks, size_t *count) {
    DIR *entries = opendir(directory);
    *ranks = NULL;
    *count = 0;
    if (!entries) return named(directory, strerror(errno));
    bool has_memory = true;
    for (struct dirent *entry; has_memory && (entry = readdir(entries));) {
        struct stat status;
        uint32_t rank = rank_named(entry->d_name), *grown;
        char *path = rank ? joined(directory, entry->d_name) : NULL;
        bool found = path && stat(path, &status) == 0 && S_ISREG(status.st_mode);
        free(path);
        if (!found) continue;
        grown = realloc(*ranks, (*count + 1) * sizeof *grown);
        has_memory = grown != NULL;
        if (!grown) continue;
        grown[(*count)++] = rank;
        *ranks = grown;
    }
    closedir(entries);
    if (*count) qsort(*ranks, *count, sizeof **ranks, by_number);
    return has_memory ? NULL : named(directory, "out of memory");
}

/* ---- The order of a stream ---- */

static int phase_number(const struct toyspec_value *phase) {
    static const char *const phases[] = {"train", "eval", "decode", "serve"};
    for (int i = 0; phase && phase->type == TOYSPEC_STRING && i < 4; i++)
        if (text_is(phase->text, phases[i])) return i + 1;
    return 0;
}

static int phase_of(const struct toyspec_sequence *sequence, const struct toyspec_value *record) {
    int own = phase_number(toyspec_get(record, "phase"));
    return own ? own : sequence->run_phase ? sequence->run_phase : 1;
}

static bool is_kind(const struct toyspec_value *record, const char *kind) {
    const struct toyspec_value *tag = toyspec_get(record, "kind");
    return tag && tag->type == TOYSPEC_STRING && text_is(tag->text, kind);
}

/* Gives an integer member; false where there is none, or it is not an integer of 64 bits. */
static bool integer_of(const struct toyspec_value *record, const char *key, int64_t *integer) {
    const struct toyspec_value *value = toyspec_get(record, key);
    if (!value || value->type != TOYSPEC_INTEGER) return false;
    if (!value->text.bytes) *integer = value->integer;
    else {
        char digits[24];
        if (value->text.length >= sizeof digits) return false;
        memcpy(digits, value->text.bytes, value->text.length);
        digits[value->text.length] = 0;
        errno = 0;
        *integer = strtoll(digits, NULL, 10);
        if (errno) return false;
    }
    return true;
}

/* Gives a number member as binary64. */
static bool number_of(const struct toyspec_value *record, const char *key, double *number) {
    const struct toyspec_value *value = toyspec_get(record, key);
    if (!value || (value->type != TOYSPEC_FLOAT && value->type != TOYSPEC_INTEGER)) return false;
    bool plain = value->type == TOYSPEC_INTEGER && !value->text.bytes;
    *number = plain ? (double)value->integer : value->type == TOYSPEC_FLOAT ? value->number : read_number(value->text.bytes, value->text.length);
    return true;
}

/* The t of a record of a known kind: that of any other takes part in nothing. */
static bool time_of(const struct toyspec_value *record, double *t) {
    return kind_of(profile_named("toy/v1"), record) && number_of(record, "t", t);
}

const char *toyspec_admit(const struct toyspec_sequence *sequence, struct toyspec_value *record) {
    if (record->type != TOYSPEC_OBJECT) return "a record is an object";
    bool start = is_kind(record, "run_start");
    if (sequence->ended && !is_kind(record, "run_resume")) return "the run has ended; it goes on with run_resume";
    if (!sequence->started && !start) return "the first record is a run_start";
    if (sequence->started && start) return "the run has started";
    if (sequence->resumes && !is_kind(record, "run_resume")) return "the first record after resuming must be run_resume";
    int phase = phase_of(sequence, record);
    int64_t step;
    if (is_kind(record, "step") && sequence->has_base[phase] && integer_of(record, "step", &step) && step <= sequence->bases[phase])
        return "the step is not larger than the one before; write run_resume first";
    double t;
    if (time_of(record, &t) && t < sequence->last)
        for (size_t i = 0; i < record->count; i++)
            if (text_is(record->members[i].key, "t")) {
                struct toyspec_value *value = &record->members[i].value;
                if (value->owned) free((char *)value->text.bytes);
                *value = toyspec_number(sequence->last);
            }
    return NULL;
}

static void note_trained(struct toyspec_sequence *sequence, const struct toyspec_value *record, int64_t step) {
    const struct toyspec_value *loss = toyspec_get(record, "loss");
    sequence->has_step = true;
    sequence->step = step;
    sequence->loss = NAN;
    sequence->has_loss = (loss && loss->type == TOYSPEC_NULL) || number_of(record, "loss", &sequence->loss);
}

void toyspec_note(struct toyspec_sequence *sequence, const struct toyspec_value *record) {
    double t;
    int64_t step;
    if (time_of(record, &t) && t >= 0) sequence->last = t;
    if (is_kind(record, "run_start") && !sequence->started) sequence->run_phase = phase_number(toyspec_get(record, "phase"));
    if (is_kind(record, "run_end")) sequence->ended = true;
    if (is_kind(record, "run_resume")) {
        sequence->resumes = sequence->ended = false;
        memset(sequence->has_base, 0, sizeof sequence->has_base);
        sequence->has_base[1] = integer_of(record, "from_step", &sequence->bases[1]);
    }
    if (is_kind(record, "step") && integer_of(record, "step", &step)) {
        int phase = phase_of(sequence, record);
        sequence->has_base[phase] = true;
        sequence->bases[phase] = step;
        if (phase == 1 && step >= 0) note_trained(sequence, record, step);
    }
    sequence->started = true;
}

/* ---- Views of a run ---- */

struct event { /* what the views need of one event of a known kind */
    bool has_number, is_step, resumes; /* resumes: the number is from_step of a run_resume; else it is the step */
    struct toyspec_value number;
    int phase; /* its own, 0 where it names none */
    bool has_time, has_loss, superseded; /* superseded by a later attempt */
    double time, loss; /* NaN for null, here and below */
};

struct point {
    struct toyspec_value step, epoch; /* null where there is no epoch */
    double value;
};

struct tag_view {
    char *name;
    size_t length;
    int64_t count;
    struct point latest, low, high; /* the first with the smallest value, and with the largest */
    bool has_best, has_minimize, minimize;
};

struct views {
    struct toyspec_buffer scratch; /* what is encoded to see whether it is valid */
    bool failed;                   /* memory ran out */
    struct toyspec_value run_id, reason, last_step;
    bool has_final, has_time;
    double final, seconds;
    bool started; /* of toy/v1: there was a run_start, */
    int phase;    /* and its phase, 0 where it names none */
    struct event *events;
    size_t event_count, event_room;
    double *curve; /* of metrics/v1 */
    size_t curve_count, curve_room;
    double least, greatest, sum;
    int64_t finite, steps;
    struct tag_view *tags; /* of kaun/v1 */
    size_t tag_count, tag_room;
};

/* Makes room for one more item. */
static bool grow(struct views *v, void **items, size_t count, size_t *room, size_t size) {
    if (count < *room) return true;
    size_t more = *room ? *room * 2 : 16;
    void *grown = realloc(*items, more * size);
    if (!grown) {
        v->failed = true;
        return false;
    }
    *items = grown;
    *room = more;
    return true;
}

static char *copied(struct views *v, struct toyspec_text text) {
    char *copy = malloc(text.length + 1);
    if (!copy) {
        v->failed = true;
        return NULL;
    }
    if (text.length) memcpy(copy, text.bytes, text.length);
    copy[text.length] = 0;
    return copy;
}

static struct toyspec_value copied_string(struct views *v, struct toyspec_text text) {
    char *copy = copied(v, text);
    if (!copy) return toyspec_null();
    return (struct toyspec_value){.type = TOYSPEC_STRING, .owned = true, .text = {copy, text.length}};
}

/* Copies an integer; its digits only where 64 bits do not hold it. */
static struct toyspec_value copied_integer(struct views *v, const struct toyspec_value *value) {
    char digits[24];
    if (!value->text.bytes) return toyspec_integer(value->integer);
    if (value->text.length < sizeof digits) {
        memcpy(digits, value->text.bytes, value->text.length);
        digits[value->text.length] = 0;
        errno = 0;
        long long number = strtoll(digits, NULL, 10);
        if (!errno) return toyspec_integer(number);
    }
    struct toyspec_value copy = copied_string(v, value->text);
    if (copy.type == TOYSPEC_STRING) copy.type = TOYSPEC_INTEGER;
    return copy;
}

/* Compares two integers that were copied. */
static int order_of(const struct toyspec_value *a, const struct toyspec_value *b) {
    bool large_a = a->text.bytes, large_b = b->text.bytes;
    if (!large_a && !large_b) return (a->integer > b->integer) - (a->integer < b->integer);
    int sign_a = large_a ? (a->text.bytes[0] == '-' ? -1 : 1) : 0, sign_b = large_b ? (b->text.bytes[0] == '-' ? -1 : 1) : 0;
    if (sign_a != sign_b) return sign_a - sign_b; /* what has no text is between all that have */
    if (a->text.length != b->text.length) return a->text.length > b->text.length ? sign_a : -sign_a;
    return sign_a * memcmp(a->text.bytes, b->text.bytes, a->text.length);
}

static double number_in(const struct toyspec_value *value) {
    if (value->type == TOYSPEC_NULL) return NAN;
    if (value->type == TOYSPEC_FLOAT) return value->number;
    return value->text.bytes ? read_number(value->text.bytes, value->text.length) : (double)value->integer;
}

static bool is_valid(struct views *v, const struct toyspec_value *value, const struct field *field) {
    /* The encoder would write null for what is beyond. */
    struct encoder e = {.out = &v->scratch};
    bool number = value->type == TOYSPEC_INTEGER || value->type == TOYSPEC_FLOAT;
    if (number && field->form == BINARY32 && fabs(number_in(value)) >= TOYSPEC_BINARY32_LIMIT) return false;
    v->scratch.length = 0;
    put_value(&e, (struct toyspec_value *)value, field, 1);
    return !e.refused;
}

/* Returns a member that its schema accepts, NULL where there is none. */
static const struct toyspec_value *valid(struct views *v, const struct kind *kind, const struct toyspec_value *record, const char *key) {
    const struct toyspec_value *value = toyspec_get(record, key);
    const struct field *field = field_named(kind, key);
    return value && field && is_valid(v, value, field) ? value : NULL;
}

static bool valid_number(struct views *v, const struct kind *kind, const struct toyspec_value *record, const char *key, double *number) {
    const struct toyspec_value *value = valid(v, kind, record, key);
    if (value) *number = number_in(value);
    return value != NULL;
}

static void keep_string(struct views *v, struct toyspec_value *kept, const struct toyspec_value *value) {
    toyspec_free(kept);
    *kept = value ? copied_string(v, value->text) : toyspec_null();
}

static void take_start(struct views *v, const struct kind *kind, const struct toyspec_value *record) {
    if (v->started) return;
    v->started = true;
    v->phase = phase_number(toyspec_get(record, "phase"));
    keep_string(v, &v->run_id, valid(v, kind, record, "run_id"));
}

static void take_toy(struct views *v, const struct kind *kind, const struct toyspec_value *record) {
    struct event event = {.phase = phase_number(toyspec_get(record, "phase")), .is_step = strcmp(kind->name, "step") == 0};
    event.has_time = valid_number(v, kind, record, "t", &event.time);
    event.resumes = strcmp(kind->name, "run_resume") == 0;
    if (event.resumes) {
        /* The run goes on after its end. */
        keep_string(v, &v->reason, NULL);
        v->has_final = false;
    }
    const struct toyspec_value *number = valid(v, kind, record, event.resumes ? "from_step" : "step");
    if (strcmp(kind->name, "run_start") == 0) {
        take_start(v, kind, record);
        number = NULL;
    } else if (strcmp(kind->name, "run_end") == 0) {
        keep_string(v, &v->reason, valid(v, kind, record, "reason"));
        v->has_final = valid_number(v, kind, record, "final_loss", &v->final);
        number = NULL;
    }
    event.has_number = number != NULL;
    if (number) event.number = copied_integer(v, number);
    event.has_loss = valid_number(v, kind, record, "loss", &event.loss);
    if (grow(v, (void **)&v->events, v->event_count, &v->event_room, sizeof *v->events)) v->events[v->event_count++] = event;
    else toyspec_free(&event.number);
}

/* Gives each event its phase, and finds those of training steps beyond a from_step that follows. */
static void find_latest_attempt(struct views *v, int phase) {
    const struct toyspec_value *limit = NULL; /* the smallest from_step that follows */
    for (size_t i = v->event_count; i-- > 0;) {
        struct event *event = &v->events[i];
        if (event->phase == 0) event->phase = phase;
        bool trains = event->phase == 1 || (event->phase == 2 && !event->is_step);
        if (!event->resumes) event->superseded = limit && event->has_number && trains && order_of(&event->number, limit) > 0;
        else if (event->has_number && (!limit || order_of(&event->number, limit) < 0)) limit = &event->number;
    }
}

static void take_entry(struct views *v, const struct kind *kind, const struct toyspec_value *record) {
    double loss = NAN, time = 0;
    for (size_t i = 0; i < kind->count; i++)
        if (kind->fields[i].required && !valid(v, kind, record, kind->fields[i].name)) return;
    valid_number(v, kind, record, "loss", &loss);
    valid_number(v, kind, record, "wall_time_ms", &time);
    if (!grow(v, (void **)&v->curve, v->curve_count, &v->curve_room, sizeof *v->curve)) return;
    loss = (double)(float)loss;
    v->curve[v->curve_count++] = loss;
    v->steps++;
    v->seconds = time / 1000;
    toyspec_free(&v->last_step);
    v->last_step = copied_integer(v, valid(v, kind, record, "step"));
    if (isnan(loss)) return;
    if (v->finite == 0 || loss < v->least) v->least = loss;
    if (v->finite == 0 || loss > v->greatest) v->greatest = loss;
    v->sum += loss;
    v->finite++;
}

/* Gives an integer member; of one with a fraction, the integer next to it towards zero. */
static bool truncated(struct views *v, const struct kind *kind, const struct toyspec_value *record, const char *key, struct toyspec_value *integer) {
    const struct toyspec_value *value = toyspec_get(record, key);
    *integer = toyspec_null();
    if (!value) return false;
    struct toyspec_value whole = *value;
    whole.owned = false;
    if (whole.type == TOYSPEC_FLOAT) {
        whole.number = trunc(whole.number);
        if (!whole_number(&whole)) v->failed = true;
    }
    bool good = is_valid(v, &whole, field_named(kind, key));
    if (good) *integer = copied_integer(v, &whole);
    if (whole.owned) free((char *)whole.text.bytes);
    return good;
}

/* Gives a point of its own, which shares no memory with another. */
static struct point copied_point(struct views *v, const struct point *point) {
    struct point copy = {toyspec_null(), toyspec_null(), point->value};
    copy.step = copied_integer(v, &point->step);
    if (point->epoch.type == TOYSPEC_INTEGER) copy.epoch = copied_integer(v, &point->epoch);
    return copy;
}

static void free_point(struct point *point) {
    toyspec_free(&point->step);
    toyspec_free(&point->epoch);
}

static void keep_point(struct views *v, struct point *kept, const struct point *point) {
    free_point(kept);
    *kept = copied_point(v, point);
}

static struct tag_view *tag_named(struct views *v, struct toyspec_text name) {
    for (size_t i = 0; i < v->tag_count; i++)
        if (v->tags[i].length == name.length && memcmp(v->tags[i].name, name.bytes, name.length) == 0) return &v->tags[i];
    if (!grow(v, (void **)&v->tags, v->tag_count, &v->tag_room, sizeof *v->tags)) return NULL;
    struct tag_view *tag = &v->tags[v->tag_count];
    *tag = (struct tag_view){.name = copied(v, name), .length = name.length};
    if (!tag->name) return NULL;
    v->tag_count++;
    return tag;
}

static bool is_later(const struct point *a, const struct point *b) {
    int order = order_of(&a->step, &b->step);
    if (order != 0 || a->epoch.type == TOYSPEC_NULL) return order > 0;
    return b->epoch.type == TOYSPEC_NULL || order_of(&a->epoch, &b->epoch) > 0;
}

static void take_point(struct views *v, struct tag_view *tag, const struct point *point, const struct toyspec_value *minimize) {
    if (tag->count++ == 0 || is_later(point, &tag->latest)) keep_point(v, &tag->latest, point);
    if (!isnan(point->value)) {
        if (!tag->has_best || point->value < tag->low.value) keep_point(v, &tag->low, point);
        if (!tag->has_best || point->value > tag->high.value) keep_point(v, &tag->high, point);
        tag->has_best = true;
    }
    if (minimize) {
        tag->has_minimize = true;
        tag->minimize = minimize->boolean;
    }
}

static void take_scalar(struct views *v, const struct kind *kind, const struct toyspec_value *record) {
    const struct toyspec_value *name = valid(v, kind, record, "tag");
    struct point point = {toyspec_null(), toyspec_null(), NAN};
    bool good = name && valid_number(v, kind, record, "value", &point.value) && truncated(v, kind, record, "step", &point.step);
    struct tag_view *tag = good ? tag_named(v, name->text) : NULL;
    if (tag) {
        truncated(v, kind, record, "epoch", &point.epoch);
        take_point(v, tag, &point, valid(v, kind, record, "minimize"));
    }
    free_point(&point);
}

static void take_view(void *context, const struct toyspec_record *record) {
    struct views *v = context;
    const struct profile *profile = record->profile ? profile_named(record->profile) : NULL;
    const struct kind *kind = profile ? kind_of(profile, &record->value) : NULL;
    if (!kind || v->failed) return;
    if (*profile->last) take_toy(v, kind, &record->value);
    else if (*profile->tag) take_scalar(v, kind, &record->value);
    else take_entry(v, kind, &record->value);
}

/* Adds a member to an object that is being made; the object owns the value. */
static void add_view(struct views *v, struct toyspec_value *object, struct toyspec_text key, struct toyspec_value value) {
    struct toyspec_member *grown = realloc(object->members, (object->count + 1) * sizeof *grown);
    char *name = grown ? copied(v, key) : NULL;
    if (grown) object->members = grown;
    if (name) grown[object->count++] = (struct toyspec_member){{name, key.length}, value};
    else {
        v->failed = true;
        toyspec_free(&value);
    }
}

static void add_named(struct views *v, struct toyspec_value *object, const char *key, struct toyspec_value value) {
    add_view(v, object, (struct toyspec_text){key, strlen(key)}, value);
}

static struct toyspec_value number_or_null(double number) { return isnan(number) ? toyspec_null() : toyspec_number(number); }

static void add_curve(struct views *v, struct toyspec_value *summary, const double *curve, size_t count) {
    struct toyspec_value array = toyspec_array(count ? calloc(count, sizeof(struct toyspec_value)) : NULL, count);
    if (count && !array.items) {
        v->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) array.items[i] = number_or_null(curve[i]);
    add_named(v, summary, "loss_curve", array);
}

static void add_string(struct views *v, struct toyspec_value *summary, const char *key, const struct toyspec_value *text) {
    if (text->type == TOYSPEC_STRING) add_named(v, summary, key, copied_string(v, text->text));
}

/* Gathers the steps of the run's own phase. */
static void fill_toy(struct views *v, struct toyspec_value *summary) {
    static const char *const phases[] = {"train", "eval", "decode", "serve"};
    int phase = v->phase ? v->phase : 1;
    const struct toyspec_value *last = NULL;
    find_latest_attempt(v, phase);
    for (size_t i = 0; i < v->event_count; i++) {
        const struct event *event = &v->events[i];
        if (event->superseded) continue;
        if (event->has_time) v->seconds = event->time;
        v->has_time = v->has_time || event->has_time;
        if (!event->is_step || !event->has_number || !event->has_time || event->phase != phase) continue;
        v->steps++;
        last = &event->number;
        if (event->has_loss && grow(v, (void **)&v->curve, v->curve_count, &v->curve_room, sizeof *v->curve)) v->curve[v->curve_count++] = event->loss;
    }
    struct toyspec_text phase_text = {phases[phase - 1], strlen(phases[phase - 1])};
    add_string(v, summary, "run_id", &v->run_id);
    add_named(v, summary, "phase", copied_string(v, phase_text));
    add_named(v, summary, "steps", toyspec_integer(v->steps));
    if (last) add_named(v, summary, "last_step", copied_integer(v, last));
    add_curve(v, summary, v->curve, v->curve_count);
    if (v->has_final || v->curve_count) add_named(v, summary, "final_loss", number_or_null(v->has_final ? v->final : v->curve[v->curve_count - 1]));
    if (v->has_time) add_named(v, summary, "duration_seconds", toyspec_number(v->seconds));
    add_string(v, summary, "reason", &v->reason);
}

static void fill_metrics(struct views *v, struct toyspec_value *summary) {
    add_named(v, summary, "steps", toyspec_integer(v->steps));
    if (v->steps) add_named(v, summary, "last_step", copied_integer(v, &v->last_step));
    add_curve(v, summary, v->curve, v->curve_count);
    if (v->steps) {
        add_named(v, summary, "final_loss", number_or_null(v->curve[v->curve_count - 1]));
        add_named(v, summary, "duration_seconds", toyspec_number(v->seconds));
    }
    if (v->finite) {
        add_named(v, summary, "loss_min", toyspec_number(v->least));
        add_named(v, summary, "loss_mean", toyspec_number((double)(float)(v->sum / (double)v->finite)));
        add_named(v, summary, "loss_max", toyspec_number(v->greatest));
    }
    add_named(v, summary, "non_finite", toyspec_integer(v->steps - v->finite));
}

static struct toyspec_value point_value(struct views *v, const struct point *point) {
    struct toyspec_value object = toyspec_object(NULL, 0);
    add_named(v, &object, "step", copied_integer(v, &point->step));
    if (point->epoch.type == TOYSPEC_INTEGER) add_named(v, &object, "epoch", copied_integer(v, &point->epoch));
    add_named(v, &object, "value", number_or_null(point->value));
    return object;
}

/* Returns whether a tag contains a word of small letters, whatever the case of its own. */
static bool contains(const struct tag_view *tag, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= tag->length; i++) {
        size_t j = 0;
        while (j < length && (tag->name[i + j] == word[j] || tag->name[i + j] == word[j] - 'a' + 'A')) j++;
        if (j == length) return true;
    }
    return false;
}

static void fill_kaun(struct views *v, struct toyspec_value *summary) {
    struct toyspec_value tags = toyspec_object(NULL, 0);
    for (size_t i = 0; i < v->tag_count; i++) {
        const struct tag_view *tag = &v->tags[i];
        bool smaller = tag->has_minimize ? tag->minimize : contains(tag, "loss") || contains(tag, "error");
        struct toyspec_value value = toyspec_object(NULL, 0);
        add_named(v, &value, "count", toyspec_integer(tag->count));
        add_named(v, &value, "latest", point_value(v, &tag->latest));
        if (tag->has_best) add_named(v, &value, "best", point_value(v, smaller ? &tag->low : &tag->high));
        add_view(v, &tags, (struct toyspec_text){tag->name, tag->length}, value);
    }
    add_named(v, summary, "tags", tags);
}

static void free_views(struct views *v) {
    for (size_t i = 0; i < v->event_count; i++) toyspec_free(&v->events[i].number);
    for (size_t i = 0; i < v->tag_count; i++) {
        free_point(&v->tags[i].latest);
        free_point(&v->tags[i].low);
        free_point(&v->tags[i].high);
        free(v->tags[i].name);
    }
    toyspec_free(&v->run_id);
    toyspec_free(&v->reason);
    toyspec_free(&v->last_step);
    free(v->events);
    free(v->curve);
    free(v->tags);
    free(v->scratch.bytes);
}

/* Gives the run_id of a bundle: that of its manifest, else the name of its directory. */
static void add_bundle_id(struct views *v, struct toyspec_value *summary, const char *directory) {
    struct toyspec_value manifest = toyspec_null();
    struct toyspec_buffer text = {0};
    const struct toyspec_value *id = NULL;
    if (read_manifest(directory, &manifest, &text)) id = valid(v, kind_named(profile_named("kaun/v1"), "run"), &manifest, "run_id");
    char *whole = id ? NULL : realpath(directory, NULL);
    const char *name = whole ? strrchr(whole, '/') + 1 : "";
    if (id) add_string(v, summary, "run_id", id);
    else if (*name) add_named(v, summary, "run_id", copied_string(v, (struct toyspec_text){name, strlen(name)}));
    free(whole);
    toyspec_free(&manifest);
    free(text.bytes);
}

/* Adds the views of one rank to those of a run: what its stream has of them. */
static void add_rank(struct views *v, struct toyspec_value *rows, uint32_t rank, const char *state, const struct toyspec_value *summary) {
    static const char *const shown[] = {"steps", "last_step", "reason"};
    struct toyspec_value row = toyspec_object(NULL, 0), *grown = realloc(rows->items, (rows->count + 1) * sizeof *grown);
    if (!grown) {
        v->failed = true;
        return;
    }
    add_named(v, &row, "rank", toyspec_integer(rank));
    add_named(v, &row, "state", copied_string(v, (struct toyspec_text){state, strlen(state)}));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const struct toyspec_value *view = toyspec_get(summary, shown[i]);
        if (view) add_named(v, &row, shown[i], view->type == TOYSPEC_STRING ? copied_string(v, view->text) : copied_integer(v, view));
    }
    rows->items = grown;
    rows->items[rows->count++] = row;
}

/* Compares how far two ranks came: one without a step came less far than any other. */
static int order_of_ranks(const struct toyspec_value *a, const struct toyspec_value *b) {
    const struct toyspec_value *one = toyspec_get(a, "last_step"), *other = toyspec_get(b, "last_step");
    return one && other ? order_of(one, other) : (one != NULL) - (other != NULL);
}

/* Gives the rank that came least far; of several, the only one whose stream is not complete; NULL where it is not one. */
static const struct toyspec_value *first_stopped(const struct toyspec_value *rows) {
    const struct toyspec_value *lowest = &rows->items[0], *open = NULL;
    size_t equal = 0, open_count = 0;
    for (size_t i = 1; i < rows->count; i++)
        if (order_of_ranks(&rows->items[i], lowest) < 0) lowest = &rows->items[i];
    for (size_t i = 0; i < rows->count; i++) {
        if (order_of_ranks(&rows->items[i], lowest) != 0) continue;
        equal++;
        if (text_is(toyspec_get(&rows->items[i], "state")->text, "complete")) continue;
        open = &rows->items[i];
        open_count++;
    }
    if (equal == 1) return toyspec_get(lowest, "rank");
    return open_count == 1 ? toyspec_get(open, "rank") : NULL;
}

/* Adds the views of all ranks, if others than the first have a stream in a directory. */
static const char *add_ranks(const char *directory, const struct toyspec_options *options, const char *state, struct toyspec_value *summary) {
    struct views v = {.run_id = toyspec_null(), .reason = toyspec_null(), .last_step = toyspec_null()};
    struct toyspec_options given = {.profile = "toy/v1", .max_line_bytes = options ? options->max_line_bytes : 0};
    struct toyspec_value rows = toyspec_array(NULL, 0), other;
    struct toyspec_report *report = malloc(sizeof *report);
    uint32_t *ranks = NULL;
    size_t count = 0;
    const char *reason = report ? toyspec_ranks(directory, &ranks, &count) : "out of memory";
    if (count) add_rank(&v, &rows, 0, state, summary);
    for (size_t i = 0; i < count && !reason && !v.failed; i++) {
        char name[32];
        toyspec_rank_file(ranks[i], name);
        char *path = joined(directory, name);
        reason = path ? toyspec_summarize_file(path, &given, &other, report) : "out of memory";
        if (!reason) add_rank(&v, &rows, ranks[i], report->state, &other);
        if (path) toyspec_free(&other);
        free(path);
    }
    const struct toyspec_value *first = count && !reason && !v.failed ? first_stopped(&rows) : NULL;
    if (first) add_named(&v, summary, "first_stopped", *first);
    if (rows.count) add_named(&v, summary, "ranks", rows);
    if (!reason && v.failed) reason = "out of memory";
    free(ranks);
    free(report);
    free_views(&v);
    return reason;
}

/* Summarizes a stream; bundle is the directory that was named, NULL for a stream alone. */
static const char *summarize(int descriptor, const struct toyspec_options *options, const char *beside, const char *bundle,
                             struct toyspec_value *summary, struct toyspec_report *report) {
    struct toyspec_options given = options ? *options : (struct toyspec_options){0};
    struct views v = {.run_id = toyspec_null(), .reason = toyspec_null(), .last_step = toyspec_null()};
    *summary = toyspec_object(NULL, 0);
    given.mode = "salvage";
    const char *reason = read_stream(descriptor, &given, beside, take_view, &v, report);
    const struct profile *profile = !reason && report->profile ? profile_named(report->profile) : NULL;
    if (profile && *profile->last) fill_toy(&v, summary);
    else if (profile && !*profile->tag) fill_metrics(&v, summary);
    else if (profile) {
        if (bundle) add_bundle_id(&v, summary, bundle);
        fill_kaun(&v, summary);
    }
    if (!reason && v.failed) reason = "out of memory";
    free_views(&v);
    if (reason) {
        toyspec_free(summary);
        *summary = toyspec_object(NULL, 0);
    }
    return reason;
}

const char *toyspec_summarize(int descriptor, const struct toyspec_options *options, struct toyspec_value *summary,
                              struct toyspec_report *report) {
    return summarize(descriptor, options, NULL, NULL, summary, report);
}

const char *toyspec_summarize_file(const char *path, const struct toyspec_options *options, struct toyspec_value *summary,
                                   struct toyspec_report *report) {
    struct toyspec_options given = options ? *options : (struct toyspec_options){0};
    char *stream = stream_at(path), *beside = stream ? directory_of(stream) : NULL;
    *report = (struct toyspec_report){0};
    *summary = toyspec_object(NULL, 0);
    int descriptor = beside ? open(stream, O_RDONLY | O_CLOEXEC) : -1;
    const char *reason = beside ? strerror(errno) : "out of memory";
    if (!given.name) given.name = stream;
    if (descriptor >= 0) {
        reason = summarize(descriptor, &given, beside, strcmp(stream, path) == 0 ? NULL : path, summary, report);
        close(descriptor);
        if (!reason && strcmp(stream, path) != 0 && report->profile && strcmp(report->profile, "toy/v1") == 0)
            reason = add_ranks(path, options, report->state, summary);
    }
    reason = named(stream ? stream : path, reason);
    free(stream);
    free(beside);
    return reason;
}

/* ---- Files that a writer opens, moves and locks. Functions return 0, an errno, or one of the following. ---- */

enum { HELD = -1, IRREGULAR = -2, NO_MEMORY = -3, EXISTS = -4, DAMAGED = -6, OTHER_PROFILE = -7, FOREIGN = -8 };

/* The file at a path may be replaced between opening and locking it; this often is not an accident. */
enum { OPEN_ATTEMPTS = 100, ROOM = 1 << 16 };

static const char *reason_of(int code) {
    switch (code) {
    case 0: return NULL;
    case HELD: return "another writer holds the stream";
    case IRREGULAR: return "the path must name a regular file, not a directory, pipe or device";
    case NO_MEMORY: return "out of memory";
    case EXISTS: return "the stream exists";
    case DAMAGED: return "the stream is damaged";
    case OTHER_PROFILE: return "the stream is not of the profile of the writer";
    case FOREIGN: return "another process writes the file";
    default: return strerror(code);
    }
}

static bool is_unavailable(int code) {
    return code == EINVAL || code == ENOSYS || code == ENOTSUP || code == EOPNOTSUPP;
}

/* Says what the result of a call for a lock means: a kind that the file system does not have is left out. */
static int lock_result(int result) {
    if (result == 0 || is_unavailable(errno) || errno == ENOLCK) return 0;
    return errno == EWOULDBLOCK || errno == EAGAIN || errno == EACCES ? HELD : errno;
}

#ifdef __linux__

#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#endif

/* Takes flock and a record lock, the only kind that writers on a JVM or in OCaml have. A record lock of the open file,
 * unlike one of the process, stays when another descriptor of the file is closed; old kernels do not have it. */
static int lock_file(int descriptor) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int code = lock_result(flock(descriptor, LOCK_EX | LOCK_NB));
    if (code) return code;
    int result = fcntl(descriptor, F_OFD_SETLK, &whole);
    if (result != 0 && is_unavailable(errno)) result = fcntl(descriptor, F_SETLK, &whole);
    return lock_result(result);
}

#elif defined(__APPLE__) || defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__) || defined(__DragonFly__)

/* Takes flock, which conflicts with record locks here, also with one of this process. */
static int lock_file(int descriptor) { return lock_result(flock(descriptor, LOCK_EX | LOCK_NB)); }

#else

/* Takes a record lock. */
static int lock_file(int descriptor) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return lock_result(fcntl(descriptor, F_SETLK, &whole));
}

#endif

/* Returns whether a path names an open file. An error that leaves this unknown counts as yes. */
static bool is_at(const char *path, int descriptor) {
    struct stat named_now, opened;
    if (stat(path, &named_now) != 0) return errno != ENOENT && errno != ENOTDIR;
    return fstat(descriptor, &opened) != 0 || (named_now.st_dev == opened.st_dev && named_now.st_ino == opened.st_ino);
}

static bool is_missing(const char *path) {
    struct stat status;
    return lstat(path, &status) != 0 && errno == ENOENT;
}

/* Opens the stream at a path, which it creates if there is none, and makes this process its only writer. */
static int open_locked(const char *path, int *descriptor, bool *created) {
    for (int attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
        struct stat status;
        *created = is_missing(path);
        *descriptor = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
        if (*descriptor < 0) return errno;
        int code = fstat(*descriptor, &status) != 0 ? errno : S_ISREG(status.st_mode) ? lock_file(*descriptor) : IRREGULAR;
        if (!code && is_at(path, *descriptor)) return 0;
        close(*descriptor);
        *descriptor = -1;
        if (code) return code;
    }
    return HELD;
}

/* Renames a file; unlike rename it never covers one that has the new name. */
static int move_file(const char *from, const char *to) {
    if (link(from, to) == 0) {
        int code = unlink(from) == 0 ? 0 : errno;
        if (code) unlink(to);
        return code;
    }
    if (errno == EEXIST || errno == ENOENT) return errno;
    /* Not every file system has links, and no directory can be linked. */
    if (!is_missing(to)) return EEXIST;
    return rename(from, to) == 0 ? 0 : errno;
}

/* What was moved out of the way of a new stream. */
struct moved {
    bool created;    /* the stream was made */
    char *previous;  /* the name that the old stream has now, NULL where there was none */
    char *older;     /* the name that the one before it has now, NULL where there was none */
};

/* Returns the text with a mark and a number after it, in memory of its own. */
static char *numbered(const char *text, const char *mark, unsigned long long number) {
    size_t room = strlen(text) + strlen(mark) + 24;
    char *name = malloc(room);
    if (name) snprintf(name, room, "%s%s%llu", text, mark, number);
    return name;
}

/* Moves a file to the first free <path>-N, N from 1; gives that name, NULL when nothing is at the path. */
static int move_to_free(const char *path, char **name) {
    *name = NULL;
    if (is_missing(path)) return 0;
    for (unsigned long long number = 1;; number++) {
        *name = numbered(path, "-", number);
        int code = *name ? move_file(path, *name) : NO_MEMORY;
        if (!code) return 0;
        free(*name);
        *name = NULL;
        if (code != EEXIST) return code;
    }
}

static void forget(struct moved *moved) {
    free(moved->previous);
    free(moved->older);
    moved->previous = moved->older = NULL;
}

/* Moves back what was moved, unless another writer has begun a stream at the path. */
static void restore(const char *path, struct moved *moved) {
    bool back = moved->previous && is_missing(path) && move_file(moved->previous, path) == 0;
    if (back && moved->older) move_file(moved->older, moved->previous);
    forget(moved);
}

/* Moves a stream to <path>.prev, and what has that name to the next free <path>.prev-N. */
static int move_to_previous(const char *path, struct moved *moved) {
    size_t room = strlen(path) + 6;
    forget(moved); /* what was moved before is kept: another writer's stream is at the path now */
    char *previous = malloc(room);
    if (!previous) return NO_MEMORY;
    snprintf(previous, room, "%s.prev", path);
    int code = move_to_free(previous, &moved->older);
    if (!code && (code = move_file(path, previous)) == 0) {
        moved->previous = previous;
        return 0;
    }
    if (moved->older) move_file(moved->older, previous);
    free(moved->older);
    free(previous);
    moved->older = NULL;
    return code;
}

/* Opens an empty stream at a path as its only writer; one with bytes moves out of the way. After an error everything is
 * where it was. */
static int open_replacing(const char *path, int *descriptor, struct moved *moved) {
    for (int attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
        struct stat status;
        int code = open_locked(path, descriptor, &moved->created);
        if (code) {
            restore(path, moved);
            return code;
        }
        if (fstat(*descriptor, &status) == 0 && status.st_size == 0) return 0;
        code = move_to_previous(path, moved);
        close(*descriptor);
        *descriptor = -1;
        if (code) return code;
    }
    return HELD;
}

/* Makes the directories that a path is in; gives the length of the first that it has made, 0 for none. */
static int make_directories(char *path, size_t *made) {
    *made = 0;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int code = mkdir(path, 0777) == 0 ? 0 : errno;
        if (code == 0 && *made == 0) *made = (size_t)(slash - path);
        struct stat status;
        if (code && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) code = 0;
        *slash = '/';
        if (code) return code;
    }
    return 0;
}

/* Removes the directories that were made, unless something is in them. */
static void remove_directories(char *path, size_t made) {
    char *slash = strrchr(path, '/');
    if (!slash || made == 0 || (size_t)(slash - path) < made) return;
    *slash = 0;
    if (rmdir(path) == 0) remove_directories(path, made);
    *slash = '/';
}

/* ---- Bytes that have to arrive ---- */

/* Writes by one call, and by more where the system takes only a part; gives how much it took. */
static int write_all(int descriptor, const char *bytes, size_t length, size_t *written) {
    *written = 0;
    while (*written < length) {
        ssize_t taken = write(descriptor, bytes + *written, length - *written);
        if (taken < 0 && errno == EINTR) continue;
        if (taken <= 0) return taken < 0 ? errno : EIO;
        *written += (size_t)taken;
    }
    return 0;
}

/* Forces a file to its device; does nothing where its file system cannot. */
static int sync_file(int descriptor) {
    return fsync(descriptor) == 0 || is_unavailable(errno) || errno == EROFS ? 0 : errno;
}

/* Forces the names in the directory of a path to its device; does nothing where that cannot be asked for. */
static int sync_directory_of(const char *path) {
    char *directory = directory_of(path);
    int descriptor = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int code = !directory ? NO_MEMORY : descriptor >= 0 || errno == EACCES || errno == EPERM ? 0 : errno;
    free(directory);
    if (descriptor < 0) return code;
    code = sync_file(descriptor);
    close(descriptor);
    return code;
}

/* Copies bytes of one file to the end of another, by way of a buffer of ROOM bytes. */
static int copy_bytes(int from, off_t offset, uint64_t length, int to, char *buffer) {
    while (length) {
        size_t written, wanted = length < ROOM ? (size_t)length : ROOM;
        ssize_t size = pread(from, buffer, wanted, offset);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return size < 0 ? errno : EIO;
        int code = write_all(to, buffer, (size_t)size, &written);
        if (code) return code;
        offset += size;
        length -= (uint64_t)size;
    }
    return 0;
}

/* Cuts the part of a line off the end of a file, if it is there: what another process has appended stays. */
static int take_back(int descriptor, const char *part, size_t length) {
    struct stat status;
    char found[512];
    if (length == 0) return 0;
    if (fstat(descriptor, &status) != 0) return errno;
    off_t start = status.st_size - (off_t)length;
    if (start < 0) return FOREIGN;
    for (size_t done = 0; done < length;) {
        size_t wanted = length - done < sizeof found ? length - done : sizeof found;
        ssize_t size = pread(descriptor, found, wanted, start + (off_t)done);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return errno;
        if (size == 0 || memcmp(found, part + done, (size_t)size) != 0) return FOREIGN;
        done += (size_t)size;
    }
    return ftruncate(descriptor, start) == 0 ? 0 : errno;
}

/* ---- Files that are named after their content ---- */

static uint32_t turned(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

/* One block of 64 bytes of SHA-256: FIPS 180-4. */
static void digest_block(uint32_t state[8], const unsigned char *block) {
    static const uint32_t constants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
        0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
        0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
        0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
        0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
        0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t low = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t high = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + low + w[i - 7] + high;
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t high = turned(v[4], 6) ^ turned(v[4], 11) ^ turned(v[4], 25), chosen = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t low = turned(v[0], 2) ^ turned(v[0], 13) ^ turned(v[0], 22), most = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t first = v[7] + high + chosen + constants[i] + w[i];
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + low + most;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

/* Writes the SHA-256 of a content as 64 lower-case digits and a NUL. */
static void digest_of(const void *content, size_t size, char digest[65]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *bytes = content;
    unsigned char rest[128] = {0};
    size_t whole = size - size % 64, tail = size % 64 < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64) digest_block(state, bytes + at);
    if (size % 64) memcpy(rest, bytes + whole, size % 64);
    rest[size % 64] = 0x80;
    for (int i = 0; i < 8; i++) rest[tail - 1 - (size_t)i] = (unsigned char)((uint64_t)size * 8 >> 8 * i);
    for (size_t at = 0; at < tail; at += 64) digest_block(state, rest + at);
    for (int i = 0; i < 8; i++) snprintf(digest + 8 * i, 9, "%08lx", (unsigned long)state[i]);
}

/* Returns the extension of the file of a media type, which is compared without parameters, blanks and case. */
static const char *extension_of(struct toyspec_text type) {
    const char *semicolon = type.length ? memchr(type.bytes, ';', type.length) : NULL;
    size_t end = semicolon ? (size_t)(semicolon - type.bytes) : type.length, start = 0;
    while (start < end && (type.bytes[start] == ' ' || type.bytes[start] == '\t')) start++;
    while (end > start && (type.bytes[end - 1] == ' ' || type.bytes[end - 1] == '\t')) end--;
    for (size_t i = 0; i < sizeof media_extensions / sizeof *media_extensions; i++) {
        const char *known = media_extensions[i][0];
        if (strlen(known) == end - start && strncasecmp(known, type.bytes + start, end - start) == 0) return media_extensions[i][1];
    }
    return OTHER_EXTENSION;
}

/* Returns whether a path is absolute or has the part "..", on POSIX systems or on Windows. */
static bool leaves_bundle(struct toyspec_text path) {
    const char *at = path.bytes;
    if (path.length && (at[0] == '/' || at[0] == '\\')) return true;
    if (path.length > 1 && at[1] == ':' && ((at[0] >= 'a' && at[0] <= 'z') || (at[0] >= 'A' && at[0] <= 'Z'))) return true;
    for (size_t start = 0, i = 0; i <= path.length; i++) {
        if (i < path.length && at[i] != '/' && at[i] != '\\') continue;
        if (i - start == 2 && at[start] == '.' && at[start + 1] == '.') return true;
        start = i + 1;
    }
    return false;
}

/* Writes a content to a path, so that it is whole there or not there at all. */
static int store_whole(const char *path, const void *content, size_t size) {
    struct stat status;
    char *temporary = NULL;
    size_t written;
    if (lstat(path, &status) == 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size == size) return 0;
    temporary = numbered(path, ".tmp-", (unsigned long long)getpid());
    int descriptor = temporary ? open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    int code = !temporary ? NO_MEMORY : descriptor < 0 ? errno : write_all(descriptor, content, size, &written);
    if (!code) code = sync_file(descriptor);
    if (descriptor >= 0 && close(descriptor) != 0 && !code) code = errno;
    if (!code && rename(temporary, path) != 0) code = errno;
    if (code && descriptor >= 0) unlink(temporary);
    free(temporary);
    return code;
}

/* ---- Writing ---- */

struct toyspec_writer {
    int descriptor; /* -1 once it is closed */
    char *path;
    const struct profile *profile;
    struct toyspec_sequence sequence;
    struct timespec start, looked; /* when the run began; when the path was last compared with the file */
    pid_t process;
    struct toyspec_buffer line;
    char why[256];          /* it was closed for good */
    int unsynced;           /* why a sync failed: none is tried again, since the system may have dropped the data */
    bool reported;          /* that the path does not name the file any more */
    uint64_t dropped, unreported; /* records; those of them that no note speaks of */
    int cause;              /* of the last drop */
    bool pristine;          /* nothing is written yet: what was opened can be undone */
    uint64_t fragment;      /* length of the bytes after the last LF, which another writer has left */
    struct moved moved;
    size_t made;            /* of the path, the directory from which on they were made */
};

static void warn_on_standard_error(const char *text) { fprintf(stderr, "toyspec: %s\n", text); }

void (*toyspec_warn)(const char *message) = warn_on_standard_error;

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static bool is_toy(const struct toyspec_writer *w) { return *w->profile->last; }

static void abandon(struct toyspec_writer *w);

/* Closes the writer for good, and returns why. A start that failed leaves everything as it was. */
static const char *give_up(struct toyspec_writer *w, int code, int undone) {
    const char *also = undone ? reason_of(undone) : NULL;
    size_t length = (size_t)snprintf(w->why, sizeof w->why, "the writer is closed for good: %s", reason_of(code));
    if (also && length < sizeof w->why) snprintf(w->why + length, sizeof w->why - length, "; a part of the line could not be removed: %s", also);
    if (w->pristine) abandon(w);
    w->pristine = false;
    close(w->descriptor);
    w->descriptor = -1;
    return w->why;
}

static bool passes(int code) {
    return code == ENOSPC || code == EDQUOT || code == EFBIG || code == EINTR || code == EAGAIN;
}

/* Writes the line, or takes back what was written of it. */
static const char *append_line(struct toyspec_writer *w) {
    size_t written;
    int code = write_all(w->descriptor, w->line.bytes, w->line.length, &written);
    if (!code) {
        w->pristine = false;
        return NULL;
    }
    int undone = take_back(w->descriptor, w->line.bytes, written);
    if (undone || !passes(code)) return give_up(w, code, undone);
    w->dropped++;
    w->unreported++;
    w->cause = code;
    snprintf(w->why, sizeof w->why, "the record was dropped, later ones may fit: %s", reason_of(code));
    return w->why;
}

/* Forces the stream and its directory to the device. Once that has failed, it fails for ever. */
static const char *force(struct toyspec_writer *w) {
    if (!w->unsynced) w->unsynced = sync_file(w->descriptor);
    if (!w->unsynced) w->unsynced = sync_directory_of(w->path);
    if (!w->unsynced) return NULL;
    snprintf(w->why, sizeof w->why, "the record is written, but may not survive a power loss: %s", reason_of(w->unsynced));
    return w->why;
}

/* Creates a file beside the stream: <path>.torn-<offset>, or with -2, -3 and so on after it, the first that is free. */
static int create_side_file(const char *path, off_t offset, char **name, int *descriptor) {
    char *first = numbered(path, ".torn-", (unsigned long long)offset);
    *name = first ? strdup(first) : NULL;
    for (unsigned long long number = 2; *name; number++) {
        *descriptor = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*descriptor >= 0 || errno != EEXIST) break;
        free(*name);
        *name = numbered(first, "-", number);
    }
    int code = !*name ? NO_MEMORY : *descriptor < 0 ? errno : 0;
    free(first);
    return code;
}

/* Keeps the fragment in a file beside the stream and cuts the stream after its last LF. */
static int move_fragment(struct toyspec_writer *w) {
    struct stat status;
    char *name = NULL, *buffer = malloc(ROOM);
    int side = -1, code = !buffer ? NO_MEMORY : fstat(w->descriptor, &status) != 0 ? errno : 0;
    off_t offset = code ? 0 : status.st_size - (off_t)w->fragment;
    if (!code) code = create_side_file(w->path, offset, &name, &side);
    if (!code) {
        code = copy_bytes(w->descriptor, offset, w->fragment, side, buffer);
        if (!code) code = sync_file(side);
        if (close(side) != 0 && !code) code = errno;
        if (!code) code = sync_directory_of(name);
        if (!code && ftruncate(w->descriptor, offset) != 0) code = errno;
        if (code) unlink(name);
    }
    if (!code) {
        snprintf(message, sizeof message, "%s: moved %llu bytes after the last record to %s", w->path, (unsigned long long)w->fragment, name);
        toyspec_warn(message);
        w->fragment = 0;
        code = sync_file(w->descriptor);
    }
    free(buffer);
    free(name);
    return code;
}

static void note_record(void *context, const struct toyspec_record *record) { toyspec_note(context, &record->value); }

/* Reads the stream that is there, to learn what may come next; gives what forbids to go on. */
static int learn(struct toyspec_writer *w, struct toyspec_report *report) {
    struct toyspec_options options = {.mode = "salvage", .name = w->path};
    char *beside = directory_of(w->path);
    const char *reason = beside ? read_stream(w->descriptor, &options, beside, note_record, &w->sequence, report) : "";
    free(beside);
    if (reason) return *reason ? EIO : NO_MEMORY;
    if (strcmp(report->state, "damaged") == 0) return DAMAGED;
    if (report->records && (!report->profile || strcmp(report->profile, w->profile->name) != 0)) return OTHER_PROFILE;
    return 0;
}

/* Learns where the stream ends, or says why it cannot be written to. */
static int reopen(struct toyspec_writer *w, enum toyspec_exist exist) {
    struct stat status;
    if (fstat(w->descriptor, &status) != 0) return errno;
    if (status.st_size == 0) return 0;
    if (exist != TOYSPEC_RESUME) return EXISTS;
    struct toyspec_report *report = malloc(sizeof *report);
    if (!report) return NO_MEMORY;
    int code = learn(w, report);
    w->fragment = report->fragment;
    free(report);
    w->sequence.resumes = w->sequence.started;
    w->sequence.ended = false; /* a run may go on after its end */
    /* t goes on from the last t in the stream. One that no clock reaches stays the smallest that is written. */
    double last = is_toy(w) && fabs(w->sequence.last) < 1e12 ? w->sequence.last : 0;
    w->start.tv_sec -= (time_t)last;
    w->start.tv_nsec -= (long)((last - (double)(time_t)last) * 1e9);
    return code;
}

/* Lets a write beyond a limit of file sizes fail, where it would end the program. */
static void outlive_file_size_limit(void) {
    struct sigaction action;
    if (sigaction(SIGXFSZ, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_DFL) signal(SIGXFSZ, SIG_IGN);
}

static int open_stream(struct toyspec_writer *w, enum toyspec_exist exist) {
    int code = make_directories(w->path, &w->made);
    if (!code) code = exist == TOYSPEC_REPLACE ? open_replacing(w->path, &w->descriptor, &w->moved)
                                               : open_locked(w->path, &w->descriptor, &w->moved.created);
    /* An empty file too: its creator may be about to write to it. */
    if (!code && exist == TOYSPEC_FAIL && !w->moved.created) code = EXISTS;
    return code ? code : reopen(w, exist);
}

static const char *new_writer(struct toyspec_writer **writer, const char *shown, char *path, const char *profile, enum toyspec_exist exist) {
    struct toyspec_writer *w = calloc(1, sizeof *w);
    *writer = NULL;
    if (!w || !path || !(w->line.bytes = malloc(ROOM))) {
        free(path);
        free(w);
        return named(shown, "out of memory");
    }
    outlive_file_size_limit();
    w->line.capacity = ROOM;
    w->path = path;
    w->profile = profile_named(profile);
    w->process = getpid();
    w->descriptor = -1;
    w->pristine = true;
    clock_gettime(CLOCK_MONOTONIC, &w->start);
    w->looked = w->start;
    int code = open_stream(w, exist);
    const char *reason = named(path, reason_of(code));
    if (code) toyspec_close(w);
    else *writer = w;
    return reason;
}

const char *toyspec_open(struct toyspec_writer **writer, const char *directory, enum toyspec_exist exist) {
    return new_writer(writer, directory, joined(directory, profile_named("toy/v1")->file), "toy/v1", exist);
}

const char *toyspec_append(struct toyspec_writer **writer, const char *path, const char *profile) {
    *writer = NULL;
    if (!profile_named(profile) || *profile_named(profile)->last) return named(path, "the profile must be metrics/v1 or kaun/v1");
    return new_writer(writer, path, strdup(path), profile, TOYSPEC_RESUME);
}

/* Copies the file to its path, and goes on there. */
static int start_again(struct toyspec_writer *w) {
    struct moved moved = {0};
    struct stat status;
    size_t made;
    int fresh = -1, code = make_directories(w->path, &made);
    if (!code) code = open_replacing(w->path, &fresh, &moved);
    if (!code) {
        char *buffer = malloc(ROOM);
        code = !buffer ? NO_MEMORY : fstat(w->descriptor, &status) != 0 ? errno : copy_bytes(w->descriptor, 0, (uint64_t)status.st_size, fresh, buffer);
        free(buffer);
    }
    if (!code) code = sync_file(fresh);
    if (!code) code = sync_directory_of(w->path);
    if (!code) {
        close(w->descriptor);
        w->descriptor = fresh;
        w->pristine = false;
        forget(&w->moved);
    } else if (fresh >= 0) {
        if (unlink(w->path) == 0) restore(w->path, &moved);
        close(fresh);
    }
    forget(&moved);
    return code;
}

/* Finds out whether the path still names the file, and says once when it does not; the stream is started again there. */
static void look(struct toyspec_writer *w) {
    clock_gettime(CLOCK_MONOTONIC, &w->looked);
    if (is_at(w->path, w->descriptor)) return;
    int code = start_again(w);
    bool again = !code, reported = w->reported;
    w->reported = !again;
    if (reported && !again) return;
    snprintf(message, sizeof message, "%s: the file was deleted, renamed or replaced while it was open for writing; %s%s%s", w->path,
             again ? "it was started again with all its bytes" : "records go on to the old file", code ? ": " : "", code ? reason_of(code) : "");
    toyspec_warn(message);
}

/* Moves the streams of the other ranks of the run that was replaced, each as that of rank 0. One that a writer holds is of a
 * process of the new run, which began before this one. */
static void move_ranks(struct toyspec_writer *w) {
    char *directory = directory_of(w->path), name[32];
    uint32_t *ranks = NULL;
    size_t count = 0;
    forget(&w->moved);
    if (directory) toyspec_ranks(directory, &ranks, &count);
    for (size_t i = 0; i < count; i++) {
        struct moved moved = {0};
        struct stat status;
        int descriptor = -1;
        toyspec_rank_file(ranks[i], name);
        char *path = joined(directory, name);
        if (path && open_locked(path, &descriptor, &moved.created) == 0) {
            bool has_bytes = fstat(descriptor, &status) == 0 && status.st_size > 0;
            if (has_bytes) move_to_previous(path, &moved);
            else if (moved.created) unlink(path);
            close(descriptor);
        }
        forget(&moved);
        free(path);
    }
    free(ranks);
    free(directory);
}

static const char *write_record(struct toyspec_writer *w, struct toyspec_value *record) {
    const char *reason = is_toy(w) ? toyspec_admit(&w->sequence, record) : NULL;
    w->line.length = 0;
    if (!reason) reason = toyspec_encode(w->profile->name, record, &w->line);
    /* Not before a record is about to follow: a start that is refused leaves the stream as it was. */
    if (!reason && w->fragment) reason = reason_of(move_fragment(w));
    if (!reason) reason = append_line(w);
    if (!reason && w->moved.previous) move_ranks(w);
    if (!reason && is_toy(w)) toyspec_note(&w->sequence, record);
    return reason;
}

/* Writes how many records were dropped, once there is room for it again. */
static void note_dropped(struct toyspec_writer *w) {
    char text[160];
    if (!w->unreported || !is_toy(w) || w->descriptor < 0) return;
    uint64_t dropped = w->dropped, unreported = w->unreported;
    snprintf(text, sizeof text, "%llu records before this one were dropped: %s", (unsigned long long)unreported, reason_of(w->cause));
    struct toyspec_member members[] = {toyspec_member("kind", toyspec_string("note")), toyspec_member("text", toyspec_string(text)),
                                       toyspec_member("t", toyspec_number(seconds_since(&w->start)))};
    struct toyspec_value note = toyspec_object(members, 3);
    bool written = write_record(w, &note) == NULL;
    w->dropped = dropped; /* the note itself does not count */
    w->unreported = written ? 0 : unreported;
}

/* Returns whether a run id is one that names a directory on every system. */
static bool is_safe_id(struct toyspec_text id) {
    for (size_t i = 0; i < id.length; i++) {
        char c = id.bytes[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!plain && (i == 0 || (c != '.' && c != '_' && c != '-'))) return false;
    }
    return id.length > 0 && id.length <= MAX_SAFE_RUN_ID_CHARS;
}

/* Gives a record a copy of its members in a place with room for more; what is in them stays the caller's. */
static void move_members(struct toyspec_value *record, struct toyspec_member *members) {
    if (record->count) memcpy(members, record->members, record->count * sizeof *members);
    record->members = members;
    for (size_t i = 0; i < record->count; i++) members[i].value.owned = false;
}

/* Gives a toy/v1 record what it lacks: its t, and the schema of a run_start. Members has room for two more. */
static const char *complete_record(struct toyspec_writer *w, struct toyspec_value *record, struct toyspec_member *members) {
    move_members(record, members);
    const struct toyspec_value *path = is_kind(record, "artifact") ? toyspec_get(record, "path") : NULL;
    if (path && path->type == TOYSPEC_STRING && leaves_bundle(path->text))
        return "the path of the artifact leaves the bundle: copy the file into it, or write a reference";
    if (!toyspec_get(record, "t")) members[record->count++] = toyspec_member("t", toyspec_number(seconds_since(&w->start)));
    if (!is_kind(record, "run_start")) return NULL;
    if (!toyspec_get(record, "schema")) members[record->count++] = toyspec_member("schema", toyspec_string("toy/v1"));
    const struct toyspec_value *id = toyspec_get(record, "run_id");
    if (!id || id->type != TOYSPEC_STRING || is_safe_id(id->text)) return NULL;
    return "the run id is not allowed: use 1 to " LITERAL(MAX_SAFE_RUN_ID_CHARS) " letters, digits, '.', '_' and '-', with a letter or digit first";
}

/* Writes a kaun/v1 scalar with the current time as its wall_time. */
static const char *write_timed(struct toyspec_writer *w, const struct toyspec_value *record) {
    struct toyspec_member few[32], *members = record->count < 32 ? few : malloc((record->count + 1) * sizeof *members);
    struct toyspec_value with = *record;
    struct timespec now;
    if (!members) return "out of memory";
    clock_gettime(CLOCK_REALTIME, &now);
    move_members(&with, members);
    members[with.count++] = toyspec_member("wall_time", toyspec_number((double)now.tv_sec + (double)now.tv_nsec / 1e9));
    const char *reason = write_record(w, &with);
    if (members != few) free(members);
    return reason;
}

static bool lacks_time(const struct toyspec_writer *w, const struct toyspec_value *record) {
    const struct toyspec_value *type = toyspec_get(record, "type");
    bool scalar = type && type->type == TOYSPEC_STRING && text_is(type->text, "scalar");
    return scalar && strcmp(w->profile->name, "kaun/v1") == 0 && !toyspec_get(record, "wall_time");
}

static const char *write_toy(struct toyspec_writer *w, struct toyspec_value *record) {
    struct toyspec_member few[32], *members = record->count <= 30 ? few : malloc((record->count + 2) * sizeof *members);
    if (!members) return "out of memory";
    struct toyspec_value with = *record;
    bool ends = is_kind(record, "run_end");
    if (ends && w->sequence.started && !w->sequence.resumes) note_dropped(w);
    const char *reason = complete_record(w, &with, members);
    if (!reason && w->descriptor >= 0) reason = write_record(w, &with);
    else if (!reason) reason = w->why;
    if (!reason && !ends) note_dropped(w);
    if (!reason && w->descriptor >= 0 && (ends || is_kind(record, "run_start"))) reason = force(w);
    if (members != few) free(members);
    return reason;
}

/* Returns why no record can be written. */
static const char *closed_for(const struct toyspec_writer *w, const struct toyspec_value *record) {
    if (record->type != TOYSPEC_OBJECT) return "a record is an object";
    if (w->process != getpid()) return "the writer belongs to the process that opened it";
    return w->descriptor >= 0 ? NULL : *w->why ? w->why : "the writer is closed";
}

/* Returns why a record would be refused. Members has room for two more. */
static const char *refusal_of(struct toyspec_writer *w, const struct toyspec_value *record, struct toyspec_member *members) {
    struct toyspec_value with = *record;
    const char *reason = complete_record(w, &with, members);
    if (!reason) reason = toyspec_admit(&w->sequence, &with);
    w->line.length = 0;
    return reason ? reason : toyspec_encode(w->profile->name, &with, &w->line);
}

/* Writes the file of a record of media that can be written. */
static const char *store_media(const struct toyspec_writer *w, struct toyspec_text type, const char *digest, const void *content, size_t size) {
    struct stat status;
    char *directory = directory_of(w->path), *folder = directory ? joined(directory, "media") : NULL, *path = NULL;
    const char *extension = extension_of(type), *reason = folder ? NULL : "out of memory";
    if (!reason && mkdir(folder, 0777) != 0 && (lstat(folder, &status) != 0 || !S_ISDIR(status.st_mode)))
        reason = "media must be a folder of the bundle, not a link or a file";
    size_t length = reason ? 0 : strlen(folder) + strlen(digest) + strlen(extension) + 3;
    if (!reason && !(path = malloc(length))) reason = "out of memory";
    if (!reason) {
        snprintf(path, length, "%s/%s.%s", folder, digest, extension);
        reason = reason_of(store_whole(path, content, size));
    }
    free(path);
    free(folder);
    free(directory);
    return reason;
}

const char *toyspec_write_media(struct toyspec_writer *w, const struct toyspec_value *record, const void *content, size_t size) {
    const char *reason = closed_for(w, record);
    if (!reason && !is_toy(w)) reason = "only toy/v1 has media";
    if (reason) return named(w->path, reason);
    char digest[65];
    digest_of(content, size, digest);
    const struct toyspec_value *given = toyspec_get(record, "sha256"), *type = toyspec_get(record, "media_type");
    if (given && (given->type != TOYSPEC_STRING || !text_is(given->text, digest))) return named(w->path, "the content has another sha256 than the record");
    size_t room = record->count + 4;
    struct toyspec_member *members = malloc(2 * room * sizeof *members);
    if (!members) return named(w->path, "out of memory");
    struct toyspec_value with = *record;
    move_members(&with, members);
    if (!toyspec_get(record, "kind")) members[with.count++] = toyspec_member("kind", toyspec_string("media"));
    if (!given) members[with.count++] = toyspec_member("sha256", toyspec_string(digest));
    if (!is_kind(&with, "media")) reason = "the record must be of kind media";
    /* What is refused leaves no file. */
    if (!reason) reason = refusal_of(w, &with, members + room);
    if (!reason) reason = store_media(w, type->text, digest, content, size);
    reason = reason ? named(w->path, reason) : toyspec_write(w, &with);
    free(members);
    return reason;
}

const char *toyspec_write(struct toyspec_writer *w, struct toyspec_value *record) {
    const char *closed = closed_for(w, record);
    if (closed) return named(w->path, closed);
    if (is_kind(record, "run_end") || seconds_since(&w->looked) >= 1) look(w);
    return named(w->path, is_toy(w) ? write_toy(w, record) : lacks_time(w, record) ? write_timed(w, record) : write_record(w, record));
}

const char *toyspec_step(struct toyspec_writer *writer, int64_t step, double loss, double lr, double grad_norm) {
    struct toyspec_member members[6] = {toyspec_member("kind", toyspec_string("step")), toyspec_member("step", toyspec_integer(step)),
                                        toyspec_member("loss", toyspec_number(loss))};
    size_t count = 3;
    if (!isnan(lr)) members[count++] = toyspec_member("lr", toyspec_number(lr));
    if (!isnan(grad_norm)) members[count++] = toyspec_member("grad_norm", toyspec_number(grad_norm));
    struct toyspec_value record = toyspec_object(members, count);
    return toyspec_write(writer, &record);
}

uint64_t toyspec_dropped(const struct toyspec_writer *writer) { return writer->dropped; }

bool toyspec_is_open(const struct toyspec_writer *writer) {
    return writer->descriptor >= 0 && writer->process == getpid() && !writer->sequence.ended;
}

const char *toyspec_end(struct toyspec_writer *writer, const char *reason, const char *error) {
    const char *refused = NULL;
    if (!writer) return NULL;
    const struct toyspec_sequence *sequence = &writer->sequence;
    if (is_toy(writer) && sequence->started && !sequence->ended && !sequence->resumes) {
        struct toyspec_member members[5] = {toyspec_member("kind", toyspec_string("run_end")), toyspec_member("reason", toyspec_string(reason))};
        size_t count = 2;
        if (error && *error) members[count++] = toyspec_member("error", toyspec_string(error));
        if (sequence->has_step) members[count++] = toyspec_member("final_step", toyspec_integer(sequence->step));
        if (sequence->has_step && sequence->has_loss) members[count++] = toyspec_member("final_loss", toyspec_number(sequence->loss));
        struct toyspec_value record = toyspec_object(members, count);
        refused = toyspec_write(writer, &record);
    }
    toyspec_close(writer);
    return refused;
}

/* Brings everything back to where it was before the opening of a stream that is still empty. */
static void abandon(struct toyspec_writer *w) {
    struct stat status;
    bool empty = w->descriptor >= 0 && fstat(w->descriptor, &status) == 0 && status.st_size == 0 && is_at(w->path, w->descriptor);
    if (empty && w->moved.created && unlink(w->path) == 0) restore(w->path, &w->moved);
    remove_directories(w->path, w->made);
}

void toyspec_close(struct toyspec_writer *writer) {
    if (!writer) return;
    if (writer->pristine && writer->process == getpid()) abandon(writer);
    if (writer->descriptor >= 0) close(writer->descriptor);
    forget(&writer->moved);
    free(writer->path);
    free(writer->line.bytes);
    free(writer);
}
