#define _POSIX_C_SOURCE 200809L
#ifdef __APPLE__
#define _DARWIN_C_SOURCE /* flock */
#else
#define _DEFAULT_SOURCE /* flock */
#endif

#include "toyspec.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

/* ---- Values ---- */

const char toyspec_item[] = "an item";

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

/* ---- Vetting: one line as bytes and as JSON, without recursion ---- */

struct scanner {
    const unsigned char *at, *end;
    const char *stop;  /* invalid-json or nested-too-deep */
    const char *fault; /* the first of non-finite-number and lone-surrogate */
};

static int peek(const struct scanner *s) { return s->at < s->end ? *s->at : -1; }

static void skip_space(struct scanner *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r' || *s->at == '\n')) s->at++;
}

static void fail(struct scanner *s) {
    if (!s->stop) s->stop = "invalid-json";
}

static void note(struct scanner *s, const char *rule) {
    if (!s->fault) s->fault = rule;
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

/* Tells whether decimal text overflows binary64: by the place of its first digit, and by its digits near the limit. */
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

const char *toyspec_vet(const char *line, size_t length, bool first) {
    const unsigned char *start = (const unsigned char *)line;
    if (first && length >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) return "byte-order-mark";
    if (memchr(line, 0, length)) return "nul-bytes";
    if (!is_utf8(start, start + length)) return "invalid-utf8";
    struct scanner s = {.at = start, .end = start + length};
    skip_space(&s);
    bool object = peek(&s) == '{';
    scan_text(&s);
    if (s.stop) return s.stop;
    return object ? s.fault : "not-an-object";
}

static bool is_blank(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    return true;
}

/* ---- Parsing what was vetted ---- */

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
    return narrow ? fabs(back) < 3.4028235677973366e38 && (float)back == (float)number : back == number;
}

/* Gives the shortest digits that read back, of several the closest. */
static struct decimal shortest(double number, bool narrow) {
    /* Of a normal number, as many digits as any decimal keeps show every shorter form, with zeros behind it. */
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

/* Tells whether text is a date and time of RFC 3339 that exist, with a zone. */
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

static void judge_string(struct encoder *e, struct toyspec_text text, const struct field *field) {
    if (field->values) {
        const char *const *value = field->values;
        while (*value && !text_is(text, *value)) value++;
        if (!*value) refuse(e, "a string is not one of those allowed");
    }
    if (e->refused || !is_utf8((const unsigned char *)text.bytes, (const unsigned char *)text.bytes + text.length)) return;
    if (field->characters && !has_characters(text, field->characters)) refuse(e, "a string does not have the required form");
    if (field->date_time && !is_date_time(text)) refuse(e, "a string is not a date-time with a zone that exists");
}

static void judge_number(struct encoder *e, double number, const struct field *field) {
    if (field->limited && !(number >= field->least && number <= field->greatest)) refuse(e, "a number is outside its range");
}

static void put_null(struct encoder *e, const struct field *field) {
    if (!field->nullable) refuse(e, "null for a field that does not admit it");
    put(e, "null", 4);
}

static void put_integer(struct encoder *e, const struct toyspec_value *value, const struct field *field) {
    char digits[24];
    struct toyspec_text text = value->text;
    if (!text.bytes) text = (struct toyspec_text){digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)value->integer)};
    if (text_is(text, "-0")) text = (struct toyspec_text){"0", 1};
    judge_number(e, value->text.bytes ? read_number(text.bytes, text.length) : (double)value->integer, field);
    put(e, text.bytes, text.length);
}

static void put_number(struct encoder *e, const struct toyspec_value *value, const struct field *field) {
    bool open = field->form == ANYTHING;
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
    judge_number(e, number, field);
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
        refuse(e, "nested deeper than 64");
        return;
    }
    sort_members(value->members, value->count);
    for (size_t i = 1; i < value->count; i++)
        if (by_key(&value->members[i - 1], &value->members[i]) == 0) refuse(e, "a key stands twice in one object");
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
        refuse(e, "nested deeper than 64");
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
        judge_string(e, value->text, field);
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
    if (line->length - start > TOYSPEC_MAX_LINE_BYTES) refuse(&e, "the line is longer than 16777216 bytes");
    put(&e, "\n", 1);
    if (e.refused) line->length = start;
    return e.refused;
}

int toyspec_number_width(const char *profile_name, const struct toyspec_value *record, const char *const *path, size_t depth) {
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
                if (strcmp(inner[j].name, path[i]) == 0) field = &inner[j];
        } else field = form == (path[i] == toyspec_item ? ARRAY : MAP) ? inner : NULL;
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
    const struct profile *profile, *fallback;
    struct toyspec_report *report;
    toyspec_each *each;
    void *context;
    size_t limit;
    bool last_ends, stopped;
    const char *trouble;
    uint64_t line, offset;   /* of the line that is being read */
    uint64_t length;         /* of it so far */
    struct toyspec_buffer held; /* of it, while it is within the limit */
};

static void add_gap(struct reading *r, struct toyspec_gap gap, bool rest) {
    r->report->gap_bytes += gap.length;
    if (r->report->gap_count < TOYSPEC_MAX_LISTED_GAPS || rest) r->report->gaps[r->report->gap_count++] = gap;
}

static const struct profile *detect(const struct toyspec_value *record, const struct profile *fallback) {
    if (toyspec_get(record, "kind")) return profile_named("toy/v1");
    if (toyspec_get(record, "type")) return profile_named("kaun/v1");
    if (toyspec_get(record, "step") && toyspec_get(record, "wall_time_ms")) return profile_named("metrics/v1");
    return fallback;
}

static void take_record(struct reading *r) {
    struct toyspec_record record = {{r->held.bytes, r->held.length}, r->line, r->offset, toyspec_null()};
    if (!toyspec_parse(record.raw.bytes, record.raw.length, &record.value)) {
        r->trouble = "out of memory";
        return;
    }
    if (!r->profile) r->profile = detect(&record.value, r->fallback);
    const struct toyspec_value *tag = *r->profile->tag ? toyspec_get(&record.value, r->profile->tag) : NULL;
    r->last_ends = tag && tag->type == TOYSPEC_STRING && text_is(tag->text, r->profile->last);
    r->report->records++;
    r->report->committed += r->length + 1;
    r->each(r->context, &record);
    toyspec_free(&record.value);
}

static void take_line(struct reading *r) {
    const char *reason = r->length > r->limit ? "line-too-long" : NULL;
    if (!reason && is_blank(r->held.bytes, r->held.length)) r->report->committed += r->length + 1;
    else if (reason || (reason = toyspec_vet(r->held.bytes, r->held.length, r->line == 1))) {
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
    while (at < end && !r->stopped && !r->trouble) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        size_t piece = (size_t)((feed ? feed : end) - at);
        r->length += piece;
        if (r->length <= r->limit) {
            struct encoder holder = {.out = &r->held};
            put(&holder, at, piece);
            if (holder.refused) r->trouble = holder.refused;
        }
        at += piece + (feed != NULL);
        if (feed && !r->trouble) take_line(r);
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
    if (!r->profile) r->profile = r->fallback;
    bool torn = report->fragment || !report->records || (*r->profile->last && !r->last_ends);
    report->profile = r->profile->name;
    report->state = report->gap_bytes ? "damaged" : torn ? "torn" : "complete";
    if (!refused && strcmp(r->options->mode, "strict") == 0 && strcmp(report->state, "complete") != 0) refused = report->state;
    return refused;
}

const char *toyspec_read(int descriptor, const struct toyspec_options *options, toyspec_each *each, void *context,
                         struct toyspec_report *report) {
    struct toyspec_options told = options ? *options : (struct toyspec_options){0};
    if (!told.mode) told.mode = "tail";
    const char *name = told.name && strrchr(told.name, '/') ? strrchr(told.name, '/') + 1 : told.name;
    const struct profile *metrics = profile_named("metrics/v1");
    struct reading r = {.options = &told, .report = report, .each = each, .context = context, .line = 1,
                        .profile = told.profile ? profile_named(told.profile) : NULL,
                        .fallback = name && strcmp(name, metrics->file) == 0 ? metrics : profile_named("toy/v1"),
                        .limit = told.max_line_bytes ? told.max_line_bytes : TOYSPEC_MAX_LINE_BYTES};
    *report = (struct toyspec_report){0};
    char chunk[1 << 16];
    ssize_t size = 1;
    while (size > 0 && !r.trouble) {
        size = read(descriptor, chunk, sizeof chunk);
        if (size < 0 && errno == EINTR) size = 1;
        else if (size < 0) r.trouble = "read failed";
        else take_bytes(&r, chunk, (size_t)size);
    }
    free(r.held.bytes);
    return r.trouble ? r.trouble : finish(&r);
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

/* Gives an integer member; false where there is none, or it is no integer of 64 bits. */
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

const char *toyspec_admit(const struct toyspec_sequence *sequence, struct toyspec_value *record) {
    if (record->type != TOYSPEC_OBJECT) return "a record is an object";
    bool start = is_kind(record, "run_start");
    if (sequence->ended) return "the run has ended";
    if (!sequence->started && !start) return "the first record is a run_start";
    if (sequence->started && start) return "the run has started";
    int phase = phase_of(sequence, record);
    int64_t step;
    if (is_kind(record, "step") && sequence->has_base[phase] && integer_of(record, "step", &step) && step <= sequence->bases[phase])
        return "the step is not larger than the one before; write run_resume first";
    double t;
    if (number_of(record, "t", &t) && t < sequence->last)
        for (size_t i = 0; i < record->count; i++)
            if (text_is(record->members[i].key, "t")) {
                struct toyspec_value *value = &record->members[i].value;
                if (value->owned) free((char *)value->text.bytes);
                *value = toyspec_number(sequence->last);
            }
    return NULL;
}

void toyspec_note(struct toyspec_sequence *sequence, const struct toyspec_value *record) {
    double t;
    int64_t step;
    if (number_of(record, "t", &t) && t > sequence->last) sequence->last = t;
    if (is_kind(record, "run_start") && !sequence->started) sequence->run_phase = phase_number(toyspec_get(record, "phase"));
    if (is_kind(record, "run_end")) sequence->ended = true;
    if (is_kind(record, "run_resume")) {
        memset(sequence->has_base, 0, sizeof sequence->has_base);
        sequence->has_base[1] = integer_of(record, "from_step", &sequence->bases[1]);
    }
    if (is_kind(record, "step") && integer_of(record, "step", &step)) {
        int phase = phase_of(sequence, record);
        sequence->has_base[phase] = true;
        sequence->bases[phase] = step;
    }
    sequence->started = true;
}

/* ---- Writing ---- */

enum { ROOM = 1 << 16 };

struct toyspec_writer {
    int descriptor;
    char *path;
    const struct profile *profile;
    off_t committed;
    struct toyspec_sequence sequence;
    struct timespec start;
    pid_t process;
    struct toyspec_buffer line;
};

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static bool write_all(int descriptor, const char *bytes, size_t length) {
    while (length) {
        ssize_t written = write(descriptor, bytes, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

/* Writes a whole line, or takes back what was written of it; where it cannot, the writer is closed for good. */
static const char *append_line(struct toyspec_writer *w) {
    if (write_all(w->descriptor, w->line.bytes, w->line.length)) {
        w->committed += (off_t)w->line.length;
        return NULL;
    }
    const char *reason = strerror(errno);
    if (ftruncate(w->descriptor, w->committed) != 0) {
        close(w->descriptor);
        w->descriptor = -1;
    }
    return reason;
}

static char *joined(const char *directory, const char *name) {
    size_t length = strlen(directory) + strlen(name) + 2;
    char *path = malloc(length);
    if (path) snprintf(path, length, "%s/%s", directory, name);
    return path;
}

static void sync_directory(const char *path) {
    char *directory = strdup(path);
    char *slash = directory ? strrchr(directory, '/') : NULL;
    if (slash) *slash = 0;
    int descriptor = open(slash && *directory ? directory : ".", O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
    free(directory);
}

static void note_record(void *context, const struct toyspec_record *record) { toyspec_note(context, &record->value); }

/* Keeps the fragment in a file beside the stream and cuts the stream after its last LF. */
static const char *set_aside(struct toyspec_writer *w, uint64_t length) {
    size_t room = strlen(w->path) + 32;
    char *aside = malloc(room), *bytes = malloc(length);
    const char *reason = "out of memory";
    if (aside && bytes) {
        snprintf(aside, room, "%s.torn-%lld", w->path, (long long)w->committed);
        int kept = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        bool good = kept >= 0 && pread(w->descriptor, bytes, length, w->committed) == (ssize_t)length &&
                    write_all(kept, bytes, length) && fsync(kept) == 0 && ftruncate(w->descriptor, w->committed) == 0;
        reason = good ? NULL : strerror(errno);
        if (kept >= 0) close(kept);
    }
    free(aside);
    free(bytes);
    return reason;
}

/* Locks the stream and brings it to a line end, or says why it cannot be written to. */
static const char *take_over(struct toyspec_writer *w, enum toyspec_exist exist) {
    struct stat status;
    if (flock(w->descriptor, LOCK_EX | LOCK_NB) != 0) return "another writer holds the stream";
    if (fstat(w->descriptor, &status) != 0) return strerror(errno);
    if (status.st_size == 0) return NULL;
    if (exist != TOYSPEC_RESUME) return "the stream exists";
    struct toyspec_report *report = malloc(sizeof *report);
    if (!report) return "out of memory";
    struct toyspec_options options = {.mode = "salvage", .profile = w->profile->name};
    const char *reason = toyspec_read(w->descriptor, &options, note_record, &w->sequence, report);
    if (!reason && strcmp(report->state, "damaged") == 0) reason = "the stream is damaged";
    if (!reason && *w->profile->last && strcmp(report->state, "complete") == 0) reason = "the stream is complete";
    w->committed = (off_t)report->committed;
    if (!reason && report->fragment) reason = set_aside(w, report->fragment);
    free(report);
    /* t goes on from the last t in the stream. */
    double last = *w->profile->last ? w->sequence.last : 0;
    /* A t that no clock reaches stays the smallest that is written, without being one of this clock. */
    if (!(fabs(last) < 1e12)) last = 0;
    w->start.tv_sec -= (time_t)last;
    w->start.tv_nsec -= (long)((last - (double)(time_t)last) * 1e9);
    return reason;
}

static const char *open_stream(struct toyspec_writer **writer, char *path, const char *profile, enum toyspec_exist exist) {
    struct toyspec_writer *w = calloc(1, sizeof *w);
    *writer = NULL;
    if (!w || !path || !(w->line.bytes = malloc(ROOM))) {
        free(path);
        free(w);
        return "out of memory";
    }
    w->line.capacity = ROOM;
    w->path = path;
    w->profile = profile_named(profile);
    w->process = getpid();
    clock_gettime(CLOCK_MONOTONIC, &w->start);
    w->descriptor = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    const char *reason = w->descriptor < 0 ? strerror(errno) : take_over(w, exist);
    if (reason) toyspec_close(w);
    else *writer = w;
    return reason;
}

/* Renames a stream that no writer holds, if there is one. */
static const char *move_aside(const char *path) {
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    const char *reason = NULL;
    if (descriptor < 0) return errno == ENOENT ? NULL : strerror(errno);
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) reason = "another writer holds the stream";
    else if (fstat(descriptor, &status) == 0 && status.st_size > 0) {
        size_t room = strlen(path) + 6;
        char *previous = malloc(room);
        if (previous) snprintf(previous, room, "%s.prev", path);
        if (!previous || rename(path, previous) != 0) reason = previous ? strerror(errno) : "out of memory";
        free(previous);
    }
    close(descriptor);
    return reason;
}

static const char *make_directories_of(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        bool failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed) return strerror(errno);
    }
    return NULL;
}

const char *toyspec_open(struct toyspec_writer **writer, const char *directory, enum toyspec_exist exist) {
    char *path = joined(directory, profile_named("toy/v1")->file);
    *writer = NULL;
    const char *reason = path ? make_directories_of(path) : NULL;
    if (path && !reason && exist == TOYSPEC_REPLACE) reason = move_aside(path);
    if (!reason) return open_stream(writer, path, "toy/v1", exist);
    free(path);
    return reason;
}

const char *toyspec_append(struct toyspec_writer **writer, const char *path, const char *profile) {
    *writer = NULL;
    if (!profile_named(profile) || *profile_named(profile)->last) return "no profile that is appended to";
    return open_stream(writer, strdup(path), profile, TOYSPEC_RESUME);
}

/* Gives a record its t, where it has none, in *members, which has room for one more. */
static void set_time(struct toyspec_writer *w, struct toyspec_value *record, struct toyspec_member *members) {
    memcpy(members, record->members, record->count * sizeof *members);
    record->members = members;
    if (!toyspec_get(record, "t")) members[record->count++] = toyspec_member("t", toyspec_number(seconds_since(&w->start)));
}

static const char *write_record(struct toyspec_writer *w, struct toyspec_value *record) {
    bool toy = *w->profile->last;
    if (w->descriptor < 0 || w->process != getpid()) return "the writer is closed";
    const char *reason = toy ? toyspec_admit(&w->sequence, record) : NULL;
    w->line.length = 0;
    if (!reason) reason = toyspec_encode(w->profile->name, record, &w->line);
    if (!reason) reason = append_line(w);
    if (reason || !toy) return reason;
    toyspec_note(&w->sequence, record);
    if (!w->sequence.ended && !is_kind(record, "run_start")) return NULL;
    sync_directory(w->path);
    return fsync(w->descriptor) == 0 ? NULL : strerror(errno);
}

const char *toyspec_write(struct toyspec_writer *writer, struct toyspec_value *record) {
    if (record->type != TOYSPEC_OBJECT) return "a record is an object";
    if (!*writer->profile->last) return write_record(writer, record);
    struct toyspec_member few[32], *members = record->count < 32 ? few : malloc((record->count + 1) * sizeof *members);
    if (!members) return "out of memory";
    struct toyspec_value with = *record;
    set_time(writer, &with, members);
    const char *reason = write_record(writer, &with);
    if (members != few) free(members);
    return reason;
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

void toyspec_close(struct toyspec_writer *writer) {
    if (!writer) return;
    if (writer->descriptor >= 0) close(writer->descriptor);
    free(writer->path);
    free(writer->line.bytes);
    free(writer);
}
