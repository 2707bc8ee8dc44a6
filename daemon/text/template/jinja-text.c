/* SPDX-License-Identifier: MIT */
/* Operations on strings that filters and methods share. Each keeps the provenance of the characters that it keeps. */
#include "daemon/text/template/jinja-eval.h"
#include "daemon/text/template/jinja-unicode.h"
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

static bool cased_at(const struct jj_str *s, size_t off)
{
    uint32_t c;
    if (off >= s->len) return false;
    jj_char(s->p + off, &c);
    return jj_is_cased(c);
}

/* True if the Greek sigma at @off ends a word: its small letter differs there. */
static bool final_sigma(const struct jj_str *s, size_t off)
{
    size_t before = off;
    while (before > 0 && ((unsigned char)s->p[--before] & 0xc0) == 0x80) continue;
    return off > 0 && cased_at(s, before) && !cased_at(s, off + 2);
}

static bool separates_words(uint32_t c)
{
    return jj_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* The case mapping of @c. @fresh: @c begins the string (capitalized) or a word (titles). */
static enum jj_case which_case(enum jj_case_op op, uint32_t c, bool fresh)
{
    switch (op) {
    case JJ_TO_UPPER:
        return JJ_UPPER;
    case JJ_TO_LOWER:
        return JJ_LOWER;
    case JJ_SWAP_CASE:
        return jj_is_upper(c) ? JJ_LOWER : JJ_UPPER;
    case JJ_TO_FILTER_TITLE:
        return fresh ? JJ_UPPER : JJ_LOWER;
    default:
        return fresh ? JJ_TITLE : JJ_LOWER;
    }
}

const struct jj_str *jj_change_case(struct jj *j, const struct jj_str *s, enum jj_case_op op)
{
    struct jj_sb sb = {.j = j};
    struct jj_run run = {0};
    size_t it = 0;
    bool fresh = true;
    while (jj_str_run(s, &it, &run)) {
        for (size_t i = run.off; i < run.off + run.len;) {
            uint32_t c, to[3];
            size_t n = jj_char(s->p + i, &c);
            enum jj_case wanted = which_case(op, c, fresh);
            size_t k = jj_case_map(wanted, c, to);
            if (c == 0x3a3 && wanted == JJ_LOWER && final_sigma(s, i)) to[0] = 0x3c2;
            for (size_t m = 0; m < k; m++)
                if (jj_sb_char(&sb, to[m], run.markup) < 0) return NULL;
            fresh = op == JJ_TO_TITLE ? !jj_is_cased(c) : op == JJ_TO_FILTER_TITLE ? separates_words(c) : false;
            i += n;
        }
    }
    const struct jj_str *out = jj_sb_done(&sb);
    return out && s->safe ? jj_str_safe(j, out, true) : out;
}

static bool in_set(const struct jj_str *chars, const char *p, size_t n, uint32_t c)
{
    return chars ? memmem(chars->p, chars->len, p, n) != NULL : jj_is_space(c);
}

const struct jj_str *jj_strip(struct jj *j, const struct jj_str *s, const struct jj_str *chars, int sides)
{
    size_t from = 0, to = s->len;
    while (sides & 1 && from < to) {
        uint32_t c;
        size_t n = jj_char(s->p + from, &c);
        if (!in_set(chars, s->p + from, n, c)) break;
        if (chars && jj_charge_bytes(j, chars->len) < 0) return NULL;
        from += n;
    }
    while (sides & 2 && to > from) {
        size_t p = to - 1;
        while (((unsigned char)s->p[p] & 0xc0) == 0x80) p--;
        uint32_t c;
        jj_char(s->p + p, &c);
        if (!in_set(chars, s->p + p, to - p, c)) break;
        if (chars && jj_charge_bytes(j, chars->len) < 0) return NULL;
        to = p;
    }
    return jj_str_sub(j, s, from, to - from);
}

/* Length of the line end at @p, or 0. */
static size_t line_end(const char *p, size_t left)
{
    uint32_t c;
    size_t n = jj_char(p, &c);
    if (c == '\r') return left > 1 && p[1] == '\n' ? 2 : 1;
    bool ends = (c >= 0x0a && c <= 0x0c) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    return ends ? n : 0;
}

struct jj_seq *jj_split_lines(struct jj *j, const struct jj_str *s, bool keep)
{
    struct jj_seq *q = jj_seq_new(j, JJ_LIST, 0);
    size_t from = 0;
    for (size_t i = 0; q && i < s->len;) {
        uint32_t c;
        size_t end = line_end(s->p + i, s->len - i), n = end ? end : jj_char(s->p + i, &c);
        i += n;
        if (!end && i < s->len) continue;
        const struct jj_str *line = jj_str_sub(j, s, from, i - from - (keep ? 0 : end));
        if (!line || jj_seq_push(j, q, jj_string(line)) < 0) return NULL;
        from = i;
    }
    return q;
}

/* s.replace("", to): inserts before each character and at the end. */
static int replace_empty(struct jj_sb *sb, const struct jj_str *s, const struct jj_str *to, int64_t count)
{
    int r = 0;
    for (size_t i = 0; r == 0; count--) {
        if (count != 0) r = jj_sb_str(sb, to);
        if (r < 0 || i >= s->len) break;
        uint32_t c;
        size_t n = count ? jj_char(s->p + i, &c) : s->len - i;
        r = jj_sb_sub(sb, s, i, n);
        i += n;
        if (!count) break;
    }
    return r;
}

const struct jj_str *jj_replace(struct jj *j, const struct jj_str *s, const struct jj_str *from,
                                const struct jj_str *to, int64_t count)
{
    struct jj_sb sb = {.j = j};
    if (count < 0) count = INT64_MAX;
    if (!from->len) return replace_empty(&sb, s, to, count) < 0 ? NULL : jj_sb_done(&sb);
    size_t at = 0;
    for (; count != 0; count--) {
        const char *hit = memmem(s->p + at, s->len - at, from->p, from->len);
        if (!hit) break;
        size_t off = (size_t)(hit - s->p);
        if (jj_sb_sub(&sb, s, at, off - at) < 0 || jj_sb_str(&sb, to) < 0) return NULL;
        at = off + from->len;
        if (jj_charge(j, 1) < 0) return NULL;
    }
    if (!at) return s;
    if (jj_sb_sub(&sb, s, at, s->len - at) < 0) return NULL;
    return jj_sb_done(&sb);
}

/* Copies the text without the blanks around it and the underscores between digits. false: it cannot be a number. */
static bool number_text(const struct jj_str *s, char *out, size_t size)
{
    size_t from = 0, to = s->len, n = 0;
    uint32_t c;
    while (from < to && jj_is_space((jj_char(s->p + from, &c), c))) from += jj_char(s->p + from, &c);
    while (to > from && (s->p[to - 1] == ' ' || (s->p[to - 1] >= '\t' && s->p[to - 1] <= '\r'))) to--;
    for (size_t i = from; i < to; i++) {
        if (s->p[i] == '_') {
            bool between = i > from && i + 1 < to && s->p[i - 1] != '_' && s->p[i + 1] != '_';
            if (!between) return false;
            continue;
        }
        if (n + 1 >= size || !s->p[i] || s->p[i] == ' ') return false;
        out[n++] = s->p[i];
    }
    out[n] = '\0';
    return n > 0;
}

int jj_parse_int(const struct jj_str *s, int base, int64_t *out)
{
    char b[128], *p = b, *end;
    if (!number_text(s, b, sizeof(b)) || base == 1 || base < 0 || base > 36) return 1;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    int prefix = p[0] != '0' ? 0 : (p[1] | 32) == 'x' ? 16 : (p[1] | 32) == 'o' ? 8 : (p[1] | 32) == 'b' ? 2 : 0;
    if (prefix && (base == 0 || base == prefix)) {
        p += 2;
        base = prefix;
    } else if (base == 0) {
        if (p[0] == '0' && strspn(p, "0") != strlen(p)) return 1;
        base = 10;
    }
    if (!((*p >= '0' && *p <= '9') || ((*p | 32) >= 'a' && (*p | 32) <= 'z'))) return 1;
    if (base == 16 && p[0] == '0' && (p[1] | 32) == 'x') return 1; /* strtoull would accept it */
    errno = 0;
    unsigned long long v = strtoull(p, &end, base);
    if (*end) return 1;
    if (errno || v > (unsigned long long)INT64_MAX + negative) return 2;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return 0;
}

int jj_parse_float(const struct jj_str *s, double *out)
{
    char b[512], *end;
    if (!number_text(s, b, sizeof(b))) return 1;
    const char *p = b + (*b == '-' || *b == '+');
    bool word = !strcasecmp(p, "inf") || !strcasecmp(p, "infinity") || !strcasecmp(p, "nan");
    if (!word && strspn(p, "0123456789.eE+-") != strlen(p)) return 1; /* Python's float() has no hexadecimal */
    *out = strtod(b, &end);
    return *end || end == b ? 1 : 0;
}
