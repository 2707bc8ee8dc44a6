/* SPDX-License-Identifier: MIT */
#include "daemon/text/template/jinja-str.h"
#include "libcommon/utf8.h"
#include <stdarg.h>
#include <stdio.h>

/* The first span of @s that ends behind byte @off. */
static size_t span_at(const struct jj_str *s, size_t off)
{
    size_t lo = 0, hi = s->n_spans;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->spans[mid].end - s->base <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool jj_str_run(const struct jj_str *s, size_t *i, struct jj_run *r)
{
    size_t pos = r->off + r->len;
    if (pos >= s->len) return false;
    size_t end = s->len;
    bool markup = s->markup;
    if (s->spans) {
        while (*i < s->n_spans && s->spans[*i].end - s->base <= pos) ++*i;
        if (*i < s->n_spans) {
            markup = s->spans[*i].markup;
            if (s->spans[*i].end - s->base < end) end = s->spans[*i].end - s->base;
        }
        ++*i;
    }
    *r = (struct jj_run){pos, end - pos, markup};
    return true;
}

size_t jj_char(const char *p, uint32_t *c)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80) {
        *c = u[0];
        return 1;
    }
    if (u[0] < 0xe0) {
        *c = (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
        return 2;
    }
    if (u[0] < 0xf0) {
        *c = (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
        return 3;
    }
    *c = (u[0] & 0x07u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 | (u[3] & 0x3fu);
    return 4;
}

size_t jj_count_chars(const char *p, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
}

const struct jj_str *jj_str_view(struct jj *j, const char *p, size_t len, bool markup)
{
    struct jj_str *s = jj_alloc(j, sizeof(*s));
    if (!s) return NULL;
    *s = (struct jj_str){.p = p, .len = len, .chars = jj_count_chars(p, len), .markup = markup};
    return s;
}

const struct jj_str *jj_str_lit(struct jj *j, const char *s)
{
    return jj_str_view(j, s, strlen(s), true);
}

size_t jj_str_offset(const struct jj_str *s, size_t i)
{
    if (i >= s->chars) return s->len;
    if (s->chars == s->len) return i;
    size_t off = 0;
    while (i > 0) {
        off++;
        while (off < s->len && ((unsigned char)s->p[off] & 0xc0) == 0x80) off++;
        i--;
    }
    return off;
}

size_t jj_str_chars(const struct jj_str *s, size_t off)
{
    return s->chars == s->len ? off : jj_count_chars(s->p, off);
}

const struct jj_str *jj_str_sub(struct jj *j, const struct jj_str *s, size_t off, size_t len)
{
    if (off == 0 && len == s->len) return s;
    struct jj_str *sub = jj_alloc(j, sizeof(*sub));
    if (!sub) return NULL;
    *sub = *s;
    sub->p = s->p + off;
    sub->len = len;
    sub->chars = s->chars == s->len ? len : jj_count_chars(sub->p, len);
    if (!s->spans) return sub;

    size_t first = span_at(s, off);
    sub->base = s->base + off;
    sub->spans += first;
    sub->n_spans -= first;
    if (!sub->n_spans || sub->spans->end - sub->base >= len) {
        if (sub->n_spans) sub->markup = sub->spans->markup;
        sub->spans = NULL;
        sub->n_spans = sub->base = 0;
    }
    return sub;
}

/* a + b where the bytes of a end the arena: only b is copied, and the spans of a are shared. */
static const struct jj_str *extend(struct jj *j, const struct jj_str *a, const struct jj_str *b, bool *done)
{
    *done = false;
    bool same = !a->spans && !b->spans && a->markup == b->markup;
    if (!same && (!a->spans || b->spans || a->base)) return NULL;
    size_t n = a->n_spans;
    bool merge = !same && a->spans[n - 1].markup == b->markup;
    struct text_span *spans = (struct text_span *)a->spans;
    if (!same && !jj_arena_resize(&j->span, spans, n * sizeof(*spans), n * sizeof(*spans))) return NULL;
    if (!jj_arena_resize(&j->text, a->p, a->len, a->len + b->len)) return NULL;
    if (!same && !merge) {
        if (!jj_arena_resize(&j->span, spans, n * sizeof(*spans), (n + 1) * sizeof(*spans))) {
            jj_arena_resize(&j->text, a->p, a->len + b->len, a->len);
            return NULL;
        }
        spans[n - 1].end = a->len;
        n++;
    }
    *done = true;
    struct jj_str *s = jj_alloc(j, sizeof(*s));
    if (!s) return NULL;
    memcpy((char *)a->p + a->len, b->p, b->len);
    if (!same) spans[n - 1] = (struct text_span){a->len + b->len, b->markup};
    j->made += b->len;
    *s = *a;
    s->len += b->len;
    s->chars += b->chars;
    s->n_spans = n;
    return s;
}

const struct jj_str *jj_str_concat(struct jj *j, const struct jj_str *a, const struct jj_str *b)
{
    if (!b->len) return a;
    if (!a->len) return b;
    if (j->made + b->len <= j->limits.output) {
        bool done;
        const struct jj_str *s = extend(j, a, b, &done);
        if (done) return s;
    }
    struct jj_sb sb = {.j = j};
    if (jj_sb_str(&sb, a) < 0 || jj_sb_str(&sb, b) < 0) return NULL;
    return jj_sb_done(&sb);
}

const struct jj_str *jj_str_safe(struct jj *j, const struct jj_str *s, bool safe)
{
    if (s->safe == safe) return s;
    struct jj_str *copy = jj_alloc(j, sizeof(*copy));
    if (!copy) return NULL;
    *copy = *s;
    copy->safe = safe;
    return copy;
}

static const char *entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '\'':
        return "&#39;";
    case '"':
        return "&#34;";
    default:
        return NULL;
    }
}

const struct jj_str *jj_str_escape(struct jj *j, const struct jj_str *s)
{
    if (s->safe) return s;
    struct jj_sb sb = {.j = j};
    struct jj_run r = {0};
    size_t it = 0;
    while (jj_str_run(s, &it, &r)) {
        size_t from = r.off;
        for (size_t i = r.off; i < r.off + r.len; i++) {
            const char *e = entity(s->p[i]);
            if (!e) continue;
            if (jj_sb_put(&sb, s->p + from, i - from, r.markup) < 0) return NULL;
            if (jj_sb_put(&sb, e, strlen(e), r.markup) < 0) return NULL;
            from = i + 1;
        }
        if (jj_sb_put(&sb, s->p + from, r.off + r.len - from, r.markup) < 0) return NULL;
    }
    const struct jj_str *out = jj_sb_done(&sb);
    return out ? jj_str_safe(j, out, true) : NULL;
}

int jj_str_cmp(const struct jj_str *a, const struct jj_str *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int c = n ? memcmp(a->p, b->p, n) : 0; /* UTF-8 sorts in the order of code points */
    if (c) return c < 0 ? -1 : 1;
    return a->len == b->len ? 0 : a->len < b->len ? -1 : 1;
}

static int reserve(struct jj_sb *sb, size_t n)
{
    struct jj *j = sb->j;
    if (n > j->limits.output || j->made > j->limits.output - n)
        return jj_too_much(j, "bytes of text", j->limits.output);
    j->made += n;
    if (n <= sb->cap - sb->len) return 0;
    size_t cap = sb->len + n;
    if (sb->p) cap += cap / 2; /* the first allocation is exact: most strings are made in one or two steps */
    if (sb->p && jj_arena_resize(&j->text, sb->p, sb->cap, cap)) {
        sb->cap = cap;
        return 0;
    }
    int err = 0;
    char *p = jj_arena_bytes(&j->text, cap, &err);
    if (!p) return jj_oom(j, err);
    if (sb->len) memcpy(p, sb->p, sb->len);
    sb->p = p;
    sb->cap = cap;
    return 0;
}

/* Sets the provenance of the last @len bytes. */
static int add_span(struct jj_sb *sb, bool markup)
{
    if (sb->n_spans && sb->spans[sb->n_spans - 1].markup == markup) {
        sb->spans[sb->n_spans - 1].end = sb->len;
        return 0;
    }
    if (sb->n_spans == sb->cap_spans) {
        size_t cap = sb->cap_spans ? sb->cap_spans * 2 : 2, size = sizeof(*sb->spans);
        if (!sb->spans || !jj_arena_resize(&sb->j->span, sb->spans, sb->cap_spans * size, cap * size)) {
            int err = 0;
            struct text_span *spans = jj_arena_alloc(&sb->j->span, cap * size, &err);
            if (!spans) return jj_oom(sb->j, err);
            if (sb->n_spans) memcpy(spans, sb->spans, sb->n_spans * size);
            sb->spans = spans;
        }
        sb->cap_spans = cap;
    }
    sb->spans[sb->n_spans++] = (struct text_span){sb->len, markup};
    return 0;
}

int jj_sb_put(struct jj_sb *sb, const char *p, size_t len, bool markup)
{
    if (!len) return 0;
    int r = reserve(sb, len);
    if (r < 0) return r;
    memcpy(sb->p + sb->len, p, len);
    sb->len += len;
    sb->chars += jj_count_chars(p, len);
    return add_span(sb, markup);
}

int jj_sb_lit(struct jj_sb *sb, const char *s)
{
    return jj_sb_put(sb, s, strlen(s), true);
}

int jj_sb_char(struct jj_sb *sb, uint32_t c, bool markup)
{
    char b[4];
    return jj_sb_put(sb, b, utf8_encode(b, c), markup);
}

int jj_sb_fill(struct jj_sb *sb, const struct jj_str *unit, int64_t n)
{
    if (n <= 0 || !unit->len) return 0;
    if ((uint64_t)n > sb->j->limits.output / unit->len)
        return jj_too_much(sb->j, "bytes of text", sb->j->limits.output);
    int r = 0;
    while (n-- > 0 && r == 0) r = jj_sb_str(sb, unit);
    return r;
}

int jj_sb_str(struct jj_sb *sb, const struct jj_str *s)
{
    struct jj_run run = {0};
    size_t it = 0;
    while (jj_str_run(s, &it, &run)) {
        int r = jj_sb_put(sb, s->p + run.off, run.len, run.markup);
        if (r < 0) return r;
    }
    return 0;
}

int jj_sb_sub(struct jj_sb *sb, const struct jj_str *s, size_t off, size_t len)
{
    if (!s->spans) return jj_sb_put(sb, s->p + off, len, s->markup);
    struct jj_run run = {.off = off};
    size_t it = span_at(s, off);
    while (run.off + run.len < off + len && jj_str_run(s, &it, &run)) {
        size_t n = run.off + run.len > off + len ? off + len - run.off : run.len;
        int r = jj_sb_put(sb, s->p + run.off, n, run.markup);
        if (r < 0) return r;
    }
    return 0;
}

int jj_sb_printf(struct jj_sb *sb, bool markup, const char *fmt, ...)
{
    char b[512]; /* numbers: the longest is %f of 1e308 with its digits */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(b, sizeof(b), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(b)) return jj_error(sb->j, "a number too long to print");
    return jj_sb_put(sb, b, (size_t)n, markup);
}

const struct jj_str *jj_sb_done(struct jj_sb *sb)
{
    struct jj *j = sb->j;
    struct jj_str *s = jj_alloc(j, sizeof(*s));
    if (!s) return NULL;
    if (sb->p && jj_arena_resize(&j->text, sb->p, sb->cap, sb->len)) sb->cap = sb->len;
    *s = (struct jj_str){.p = sb->p ? sb->p : "", .len = sb->len, .chars = sb->chars, .markup = true};
    if (sb->n_spans == 1) s->markup = sb->spans[0].markup;
    if (sb->n_spans > 1) {
        jj_arena_resize(&j->span, sb->spans, sb->cap_spans * sizeof(*sb->spans), sb->n_spans * sizeof(*sb->spans));
        s->spans = sb->spans;
        s->n_spans = sb->n_spans;
    }
    return s;
}

int jj_sb_finish(struct jj_sb *sb, struct jj_value *out)
{
    const struct jj_str *s = jj_sb_done(sb);
    if (!s) return sb->j->err;
    *out = jj_string(s);
    return 0;
}
