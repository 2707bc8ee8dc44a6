/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/pattern.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <stdlib.h>
#include <string.h>

struct pattern_reader {
    struct jj_arena *arena;
    struct spelling *spelling;
    const char *text;
    size_t n, at;
    unsigned depth;
};

static bool here(const struct pattern_reader *r, const char *s)
{
    size_t n = strlen(s);
    return r->n - r->at >= n && memcmp(r->text + r->at, s, n) == 0;
}

static bool take(struct pattern_reader *r, const char *s)
{
    if (!here(r, s)) return false;
    r->at += strlen(s);
    return true;
}

static int new_pattern(struct pattern_reader *r, enum pattern_kind kind, struct pattern **out)
{
    int err = 0;
    *out = jj_arena_alloc(r->arena, sizeof(**out), &err);
    if (!*out) return err;
    (*out)->kind = kind;
    (*out)->asserts = kind == PATTERN_BEGIN || kind == PATTERN_END || kind == PATTERN_LOOK;
    (*out)->begins = kind == PATTERN_BEGIN;
    return 0;
}

static int new_chars(struct pattern_reader *r, const struct char_class *c, struct pattern **out)
{
    int e = new_pattern(r, PATTERN_CHARS, out);
    if (e == 0) (*out)->chars = spell_class(r->spelling, c);
    return e;
}

static int alternatives(struct pattern_reader *r, struct pattern **out);

static int close_group(struct pattern_reader *r)
{
    return take(r, ")") ? 0 : error_say(-EBADMSG, "a group without ')' in a pattern");
}

/* After "(". */
static int group(struct pattern_reader *r, struct pattern **out)
{
    static const char *const looks[] = {"?=", "?!", "?<=", "?<!"};
    for (unsigned i = 0; i < 4; i++) {
        if (!take(r, looks[i])) continue;
        struct pattern *look;
        int e = new_pattern(r, PATTERN_LOOK, &look);
        if (e == 0) e = alternatives(r, &look->child);
        if (e < 0) return e;
        look->negated = i & 1;
        look->behind = i >= 2;
        look->begins = look->child->begins;
        *out = look;
        return close_group(r);
    }
    if (take(r, "?<")) {
        while (r->at < r->n && r->text[r->at] != '>' && r->text[r->at] != ')') r->at++;
        if (!take(r, ">")) return error_say(-EBADMSG, "a group's name without '>' in a pattern");
    } else if (!take(r, "?:") && here(r, "?")) {
        return error_say(-ENOTSUP, "the group (%.2s in a pattern", r->text + r->at);
    }
    int e = alternatives(r, out);
    return e < 0 ? e : close_group(r);
}

static int literal(struct pattern_reader *r, struct pattern **out)
{
    uint32_t c;
    size_t len = utf8_decode(r->text + r->at, r->n - r->at, &c);
    struct char_class set = {.n = 0};
    if (len == 0 || !class_add(&set, c, c)) return error_say(-EBADMSG, "a pattern that is not UTF-8");
    if (len == 1 && strchr("*+?", (char)c))
        return error_say(-EBADMSG, "nothing to repeat before '%c' in a pattern", (char)c);
    r->at += len;
    return new_chars(r, &set, out);
}

static int atom(struct pattern_reader *r, struct pattern **out)
{
    struct char_class set = {.n = 0};
    if (take(r, "^")) return new_pattern(r, PATTERN_BEGIN, out);
    if (take(r, "$")) return new_pattern(r, PATTERN_END, out);
    if (take(r, "(")) return group(r, out);
    if (take(r, ".")) {
        class_add(&set, '\n', '\n');
        class_add(&set, '\r', '\r');
        class_add(&set, 0x2028, 0x2029);
        class_invert(&set);
    } else if (take(r, "[")) {
        int e = pattern_class(r->text, r->n, &r->at, &set);
        if (e < 0) return e;
    } else if (take(r, "\\")) {
        int e = pattern_escape(r->text, r->n, &r->at, &set);
        if (e < 0) return e;
    } else {
        return literal(r, out);
    }
    return new_chars(r, &set, out);
}

/* "{2}", "{2,}", "{2,3}"; anything else after '{' is a literal. */
static bool counts(struct pattern_reader *r, uint32_t *min, uint32_t *max)
{
    size_t at = r->at + 1, digits = 0;
    uint64_t v[2] = {0, 0};
    bool comma = false, upper = false;
    for (; at < r->n && r->text[at] != '}'; at++) {
        char c = r->text[at];
        if (c == ',' && !comma && digits > 0)
            comma = true;
        else if (c >= '0' && c <= '9' && v[comma] < UINT32_MAX / 16)
            v[comma] = v[comma] * 10 + (uint64_t)(c - '0'), upper = upper || comma, digits++;
        else
            return false;
    }
    if (at >= r->n || digits == 0) return false;
    r->at = at + 1;
    *min = (uint32_t)v[0];
    *max = !comma ? *min : upper ? (uint32_t)v[1] : EXPR_UNLIMITED;
    return true;
}

static int repeated(struct pattern_reader *r, struct pattern **out)
{
    int e = atom(r, out);
    while (e == 0) {
        uint32_t min = 0, max = EXPR_UNLIMITED;
        if (take(r, "+"))
            min = 1;
        else if (take(r, "?"))
            max = 1;
        else if (!take(r, "*") && !(here(r, "{") && counts(r, &min, &max)))
            break;
        take(r, "?"); /* lazy: the same set of texts */
        if (min > max) return error_say(-EBADMSG, "a repetition {%u,%u} in a pattern", min, max);
        if (min > PATTERN_COUNT_MAX || (max > PATTERN_COUNT_MAX && max != EXPR_UNLIMITED))
            return error_say(-E2BIG, "a pattern that repeats more than %u times", PATTERN_COUNT_MAX);
        struct pattern *rep;
        if ((e = new_pattern(r, PATTERN_REPEAT, &rep)) < 0) return e;
        rep->child = *out;
        rep->min = min;
        rep->max = max;
        rep->asserts = (*out)->asserts;
        rep->begins = (*out)->begins;
        *out = rep;
    }
    return e;
}

static void adopt(struct pattern *parent, struct pattern ***tail, struct pattern *child)
{
    **tail = child;
    *tail = &child->next;
    parent->asserts = parent->asserts || child->asserts;
    parent->begins = parent->begins || child->begins;
}

static int sequence(struct pattern_reader *r, struct pattern **out)
{
    int e = new_pattern(r, PATTERN_CAT, out);
    struct pattern **tail = e == 0 ? &(*out)->child : NULL, *child;
    while (e == 0 && r->at < r->n && !here(r, "|") && !here(r, ")")) {
        e = repeated(r, &child);
        if (e == 0) adopt(*out, &tail, child);
    }
    return e;
}

static int alternatives(struct pattern_reader *r, struct pattern **out)
{
    if (++r->depth > PATTERN_DEPTH_MAX) return error_say(-E2BIG, "a pattern nested deeper than %d", PATTERN_DEPTH_MAX);
    int e = new_pattern(r, PATTERN_ALT, out);
    struct pattern **tail = e == 0 ? &(*out)->child : NULL, *child;
    do {
        if (e == 0) e = sequence(r, &child);
        if (e == 0) adopt(*out, &tail, child);
    } while (e == 0 && take(r, "|"));
    r->depth--;
    return e;
}

int pattern_parse(struct jj_arena *a, struct spelling *s, const char *text, size_t n, struct pattern **out)
{
    struct pattern_reader r = {.arena = a, .spelling = s, .text = text, .n = n};
    if (n > PATTERN_BYTES_MAX) return error_say(-E2BIG, "a pattern of more than %d bytes", PATTERN_BYTES_MAX);
    int e = alternatives(&r, out);
    if (e == 0 && r.at < n) return error_say(-EBADMSG, "a ')' without '(' in a pattern");
    return e;
}
