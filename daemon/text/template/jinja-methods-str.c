/* SPDX-License-Identifier: MIT */
/* The methods of strings. */
#include "daemon/text/template/jinja-eval.h"
#include "daemon/text/template/jinja-methods.h"
#include "daemon/text/template/jinja-unicode.h"

static int give(struct jj *j, const struct jj_str *s, struct jj_value *out)
{
    if (!s) return j->err;
    *out = jj_string(s);
    return 0;
}

#define CASE_METHOD(name, op)                                                                                          \
    static int name(struct jj *j, const struct jj_call *c, struct jj_value *out)                                       \
    {                                                                                                                  \
        return give(j, jj_change_case(j, c->self.s, op), out);                                                         \
    }
CASE_METHOD(m_upper, JJ_TO_UPPER)
CASE_METHOD(m_lower, JJ_TO_LOWER)
CASE_METHOD(m_capitalize, JJ_TO_CAPITALIZED)
CASE_METHOD(m_title, JJ_TO_TITLE)
CASE_METHOD(m_swapcase, JJ_SWAP_CASE)

static int strip(struct jj *j, const struct jj_call *c, int sides, struct jj_value *out)
{
    const struct jj_str *chars = NULL;
    int r = c->a[0].type == JJ_NONE ? 0 : jj_arg_str(j, c, c->a[0], &chars);
    return r < 0 ? r : give(j, jj_strip(j, c->self.s, chars, sides), out);
}

static int m_strip(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return strip(j, c, 3, out);
}

static int m_lstrip(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return strip(j, c, 1, out);
}

static int m_rstrip(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return strip(j, c, 2, out);
}

static int push_part(struct jj *j, struct jj_seq *q, const struct jj_str *s, size_t from, size_t to)
{
    const struct jj_str *part = jj_str_sub(j, s, from, to - from);
    return part ? jj_seq_push(j, q, jj_string(part)) : j->err;
}

static size_t space_run(const struct jj_str *s, size_t at, bool spaces)
{
    while (at < s->len) {
        uint32_t c;
        size_t n = jj_char(s->p + at, &c);
        if (jj_is_space(c) != spaces) break;
        at += n;
    }
    return at;
}

static size_t space_run_back(const struct jj_str *s, size_t at, bool spaces)
{
    while (at > 0) {
        size_t p = at - 1;
        uint32_t c;
        while (((unsigned char)s->p[p] & 0xc0) == 0x80) p--;
        jj_char(s->p + p, &c);
        if (jj_is_space(c) != spaces) break;
        at = p;
    }
    return at;
}

static int split_spaces(struct jj *j, const struct jj_str *s, int64_t max, struct jj_seq *q)
{
    for (size_t at = space_run(s, 0, true); at < s->len;) {
        size_t end = max-- == 0 ? s->len : space_run(s, at, false);
        int r = push_part(j, q, s, at, end);
        if (r < 0) return r;
        at = space_run(s, end, true);
    }
    return 0;
}

static int split_at(struct jj *j, const struct jj_str *s, const struct jj_str *sep, int64_t max, struct jj_seq *q)
{
    size_t at = 0;
    for (; max != 0; max--) {
        const char *hit = memmem(s->p + at, s->len - at, sep->p, sep->len);
        if (!hit) break;
        int r = push_part(j, q, s, at, (size_t)(hit - s->p));
        if (r < 0) return r;
        at = (size_t)(hit - s->p) + sep->len;
    }
    return push_part(j, q, s, at, s->len);
}

/* Finds the last place of @needle in s[from, to): *at, or -1. The work is the product of the lengths, and is charged.
 */
static int find_last(struct jj *j, const struct jj_str *s, size_t from, size_t to, const struct jj_str *needle,
                     int64_t *at)
{
    *at = -1;
    if (to - from < needle->len) return 0;
    uint64_t work = 0;
    for (size_t i = to - needle->len + 1; i-- > from;) {
        if (!needle->len || !memcmp(s->p + i, needle->p, needle->len)) {
            *at = (int64_t)i;
            return jj_charge_bytes(j, work);
        }
        work += needle->len;
        if (work < 65536) continue;
        int r = jj_charge_bytes(j, work);
        if (r < 0) return r;
        work = 0;
    }
    return jj_charge_bytes(j, work);
}

static int rsplit_spaces(struct jj *j, const struct jj_str *s, int64_t max, struct jj_seq *q)
{
    for (size_t at = space_run_back(s, s->len, true); at > 0;) {
        size_t from = max-- == 0 ? 0 : space_run_back(s, at, false);
        int r = push_part(j, q, s, from, at);
        if (r < 0) return r;
        at = space_run_back(s, from, true);
    }
    return 0;
}

static int rsplit_at(struct jj *j, const struct jj_str *s, const struct jj_str *sep, int64_t max, struct jj_seq *q)
{
    size_t end = s->len;
    for (; max != 0; max--) {
        int64_t hit;
        int r = find_last(j, s, 0, end, sep, &hit);
        if (r < 0 || hit < 0) {
            if (r < 0) return r;
            break;
        }
        r = push_part(j, q, s, (size_t)hit + sep->len, end);
        if (r < 0) return r;
        end = (size_t)hit;
    }
    return push_part(j, q, s, 0, end);
}

static int split(struct jj *j, const struct jj_call *c, bool back, struct jj_value *out)
{
    const struct jj_str *sep = NULL;
    int64_t max = -1;
    int r = c->a[0].type == JJ_NONE ? 0 : jj_arg_str(j, c, c->a[0], &sep);
    if (r == 0) r = jj_arg_int(j, c->a[1], &max);
    if (r < 0) return r;
    if (sep && !sep->len) return jj_error(j, "empty separator");
    if (max < 0) max = -1;
    struct jj_seq *q = jj_seq_new(j, JJ_LIST, 0);
    if (!q) return j->err;
    if (back)
        r = sep ? rsplit_at(j, c->self.s, sep, max, q) : rsplit_spaces(j, c->self.s, max, q);
    else
        r = sep ? split_at(j, c->self.s, sep, max, q) : split_spaces(j, c->self.s, max, q);
    for (size_t i = 0; back && i < q->n / 2; i++) {
        struct jj_value v = q->v[i];
        q->v[i] = q->v[q->n - 1 - i];
        q->v[q->n - 1 - i] = v;
    }
    *out = jj_sequence(q);
    return r;
}

static int m_split(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return split(j, c, false, out);
}

static int m_rsplit(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return split(j, c, true, out);
}

static int m_splitlines(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool keep = false;
    jj_arg_bool(c->a[0], &keep);
    struct jj_seq *q = jj_split_lines(j, c->self.s, keep);
    if (!q) return j->err;
    *out = jj_sequence(q);
    return 0;
}

static int partition(struct jj *j, const struct jj_call *c, bool last, struct jj_value *out)
{
    const struct jj_str *s = c->self.s, *sep = NULL;
    int r = jj_arg_str(j, c, c->a[0], &sep);
    if (r < 0) return r;
    if (!sep->len) return jj_error(j, "empty separator");
    const char *hit = memmem(s->p, s->len, sep->p, sep->len);
    int64_t at = hit ? hit - s->p : -1;
    if (last) r = find_last(j, s, 0, s->len, sep, &at);
    if (r < 0) return r;
    size_t a = at >= 0 ? (size_t)at : last ? 0 : s->len, b = at >= 0 ? a + sep->len : a;
    struct jj_seq *q = jj_seq_new(j, JJ_TUPLE, 3);
    if (!q) return j->err;
    r = push_part(j, q, s, 0, a);
    if (r == 0) r = push_part(j, q, s, a, b);
    if (r == 0) r = push_part(j, q, s, b, s->len);
    *out = jj_sequence(q);
    return r;
}

static int m_partition(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return partition(j, c, false, out);
}

static int m_rpartition(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return partition(j, c, true, out);
}

static int m_join(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_seq *q = jj_check_defined(j, c->a[0]) < 0 ? NULL : jj_iterate(j, c->a[0]);
    if (!q) return j->err;
    struct jj_sb sb = {.j = j};
    int r = 0;
    for (size_t i = 0; i < q->n && r == 0; i++) {
        if (q->v[i].type != JJ_STR)
            return jj_error(j, "sequence item %zu: expected str instance, %s found", i, jj_type_name(q->v[i]));
        if (i) r = jj_sb_str(&sb, c->self.s);
        if (r == 0) r = jj_sb_str(&sb, q->v[i].s);
        if (r == 0) r = jj_charge(j, 1);
    }
    return r < 0 ? r : jj_sb_finish(&sb, out);
}

static int m_replace(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *from = NULL, *to = NULL;
    int64_t count = -1;
    int r = jj_arg_str(j, c, c->a[0], &from);
    if (r == 0) r = jj_arg_str(j, c, c->a[1], &to);
    if (r == 0) r = jj_arg_int(j, c->a[2], &count);
    return r < 0 ? r : give(j, jj_replace(j, c->self.s, from, to, count), out);
}

/* The range [from, to) in bytes of the arguments start and end, a[1] and a[2]. 1: start is beyond the end of the
 * string. */
static int bounds(struct jj *j, const struct jj_call *c, size_t *from, size_t *to)
{
    int64_t n = (int64_t)c->self.s->chars, start = 0, end = n;
    int r = c->a[1].type == JJ_NONE ? 0 : jj_arg_int(j, c->a[1], &start);
    if (r == 0 && c->a[2].type != JJ_NONE) r = jj_arg_int(j, c->a[2], &end);
    if (r < 0) return r;
    if (start < 0) start = start < -n ? 0 : start + n;
    if (end < 0) end = end < -n ? 0 : end + n;
    if (end > n) end = n;
    if (start > end) return 1;
    *from = jj_str_offset(c->self.s, (size_t)start);
    *to = jj_str_offset(c->self.s, (size_t)end);
    return 0;
}

/* startswith and endswith: one string, or a tuple of them. */
static int affix(struct jj *j, const struct jj_call *c, bool end, struct jj_value *out)
{
    size_t from, to;
    struct jj_value one = c->a[0];
    int r = bounds(j, c, &from, &to);
    *out = jj_bool(false);
    if (r) return r < 0 ? r : 0;
    size_t n = jj_is_tuple(one) ? one.q->n : 1;
    for (size_t i = 0; i < n && !out->b; i++) {
        const struct jj_str *s = NULL;
        r = jj_arg_str(j, c, jj_is_tuple(one) ? one.q->v[i] : one, &s);
        if (r == 0 && i) r = jj_charge(j, 1);
        if (r < 0) return r;
        if (s->len > to - from) continue;
        r = jj_charge_bytes(j, s->len);
        if (r < 0) return r;
        out->b = !memcmp(c->self.s->p + (end ? to - s->len : from), s->p, s->len);
    }
    return 0;
}

static int m_startswith(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return affix(j, c, false, out);
}

static int m_endswith(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return affix(j, c, true, out);
}

static int find(struct jj *j, const struct jj_call *c, bool last, struct jj_value *out)
{
    const struct jj_str *needle = NULL, *s = c->self.s;
    size_t from, to;
    int r = jj_arg_str(j, c, c->a[0], &needle);
    if (r == 0) r = bounds(j, c, &from, &to);
    *out = jj_int(-1);
    if (r) return r < 0 ? r : 0;
    int64_t at = -1;
    if (last) {
        r = find_last(j, s, from, to, needle, &at);
    } else {
        const char *hit = needle->len ? memmem(s->p + from, to - from, needle->p, needle->len) : s->p + from;
        if (hit) at = hit - s->p;
    }
    if (at >= 0) out->i = (int64_t)jj_str_chars(s, (size_t)at);
    return r;
}

static int m_find(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return find(j, c, false, out);
}

static int m_rfind(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return find(j, c, true, out);
}

static int m_index(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int r = find(j, c, c->name[0] == 'r', out);
    return r == 0 && out->i < 0 ? jj_error(j, "substring not found") : r;
}

static int m_count(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *needle = NULL, *s = c->self.s;
    size_t from, to;
    int r = jj_arg_str(j, c, c->a[0], &needle);
    if (r == 0) r = bounds(j, c, &from, &to);
    *out = jj_int(0);
    if (r) return r < 0 ? r : 0;
    if (!needle->len) {
        out->i = (int64_t)jj_count_chars(s->p + from, to - from) + 1;
        return 0;
    }
    const char *hit;
    while ((hit = memmem(s->p + from, to - from, needle->p, needle->len))) {
        out->i++;
        from = (size_t)(hit - s->p) + needle->len;
    }
    return 0;
}

static int m_removeprefix(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = c->self.s, *x = NULL;
    int r = jj_arg_str(j, c, c->a[0], &x);
    if (r < 0) return r;
    bool is = x->len <= s->len && !memcmp(s->p, x->p, x->len);
    return give(j, is ? jj_str_sub(j, s, x->len, s->len - x->len) : s, out);
}

static int m_removesuffix(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = c->self.s, *x = NULL;
    int r = jj_arg_str(j, c, c->a[0], &x);
    if (r < 0) return r;
    bool is = x->len <= s->len && !memcmp(s->p + s->len - x->len, x->p, x->len);
    return give(j, is ? jj_str_sub(j, s, 0, s->len - x->len) : s, out);
}

static const struct jj_builtin methods[] = {
    {"strip", m_strip, "chars", 0},
    {"lstrip", m_lstrip, "chars", 0},
    {"rstrip", m_rstrip, "chars", 0},
    {"split", m_split, "sep maxsplit", 0},
    {"rsplit", m_rsplit, "sep maxsplit", 0},
    {"splitlines", m_splitlines, "keepends", 0},
    {"partition", m_partition, "sep", 1},
    {"rpartition", m_rpartition, "sep", 1},
    {"startswith", m_startswith, "prefix start end", 1},
    {"endswith", m_endswith, "suffix start end", 1},
    {"replace", m_replace, "old new count", 2},
    {"join", m_join, "iterable", 1},
    {"format", jj_str_format, NULL, 0},
    {"find", m_find, "sub start end", 1},
    {"rfind", m_rfind, "sub start end", 1},
    {"index", m_index, "sub start end", 1},
    {"rindex", m_index, "sub start end", 1},
    {"count", m_count, "sub start end", 1},
    {"upper", m_upper, "", 0},
    {"lower", m_lower, "", 0},
    {"casefold", m_lower, "", 0},
    {"title", m_title, "", 0},
    {"capitalize", m_capitalize, "", 0},
    {"swapcase", m_swapcase, "", 0},
    {"center", jj_method_center, "width fillchar", 1},
    {"ljust", jj_method_ljust, "width fillchar", 1},
    {"rjust", jj_method_rjust, "width fillchar", 1},
    {"zfill", jj_method_zfill, "width", 1},
    {"expandtabs", jj_method_expandtabs, "tabsize", 0},
    {"removeprefix", m_removeprefix, "prefix", 1},
    {"removesuffix", m_removesuffix, "suffix", 1},
    {"isalpha", jj_method_is, "", 0},
    {"isalnum", jj_method_is, "", 0},
    {"isdigit", jj_method_is, "", 0},
    {"isdecimal", jj_method_is, "", 0},
    {"isnumeric", jj_method_is, "", 0},
    {"isspace", jj_method_is, "", 0},
    {"isascii", jj_method_is, "", 0},
    {"isprintable", jj_method_is, "", 0},
    {"isupper", jj_method_is_case, "", 0},
    {"islower", jj_method_is_case, "", 0},
    {"istitle", jj_method_istitle, "", 0},
};

const struct jj_builtin *jj_find_str_method(const struct jj_str *name)
{
    return JJ_FIND(methods, name);
}
