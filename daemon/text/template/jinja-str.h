/* SPDX-License-Identifier: MIT */
#pragma once
/* Strings with provenance, and the builder for them. */
#include "daemon/text/template/jinja-value.h"
#include <string.h>

/* A run of bytes of the same provenance. */
struct jj_run {
    size_t off, len;
    bool markup;
};

/* Walks the runs of @s: start with *i = 0 and *r = {0}. False past the end. */
bool jj_str_run(const struct jj_str *s, size_t *i, struct jj_run *r);

/* A string that points to @p, which outlives the render. */
const struct jj_str *jj_str_view(struct jj *j, const char *p, size_t len, bool markup);
/* The same for a literal of this program, with the provenance of the template. */
const struct jj_str *jj_str_lit(struct jj *j, const char *s);
/* A part of @s, in bytes. */
const struct jj_str *jj_str_sub(struct jj *j, const struct jj_str *s, size_t off, size_t len);
/* Byte offset of code point @i (<= chars). */
size_t jj_str_offset(const struct jj_str *s, size_t i);
/* Code points in the first @off bytes. */
size_t jj_str_chars(const struct jj_str *s, size_t off);
const struct jj_str *jj_str_concat(struct jj *j, const struct jj_str *a, const struct jj_str *b);
/* The same text, with .safe set as given. */
const struct jj_str *jj_str_safe(struct jj *j, const struct jj_str *s, bool safe);
/* Entities for & < > ' ", unless the string is safe already. The result is safe. */
const struct jj_str *jj_str_escape(struct jj *j, const struct jj_str *s);

static inline bool jj_str_is(const struct jj_str *s, const char *lit)
{
    size_t n = strlen(lit);
    return s->len == n && !memcmp(s->p, lit, n);
}
static inline bool jj_str_eq(const struct jj_str *a, const struct jj_str *b)
{
    return a == b || (a->len == b->len && !memcmp(a->p, b->p, a->len));
}
int jj_str_cmp(const struct jj_str *a, const struct jj_str *b);

/* Reads the character at @p (valid UTF-8) and returns its length. */
size_t jj_char(const char *p, uint32_t *c);
size_t jj_count_chars(const char *p, size_t len);

/* The builder. {.j = j} is an empty one. It needs no cleanup: its memory belongs to the render. */
struct jj_sb {
    struct jj *j;
    char *p;
    size_t len, cap, chars;
    struct text_span *spans;
    size_t n_spans, cap_spans;
};

int jj_sb_put(struct jj_sb *sb, const char *p, size_t len, bool markup);
int jj_sb_lit(struct jj_sb *sb, const char *s); /* with the provenance of the template */
int jj_sb_char(struct jj_sb *sb, uint32_t c, bool markup);
int jj_sb_fill(struct jj_sb *sb, const struct jj_str *unit, int64_t n); /* n <= 0: nothing */
int jj_sb_str(struct jj_sb *sb, const struct jj_str *s);
int jj_sb_sub(struct jj_sb *sb, const struct jj_str *s, size_t off, size_t len);
int jj_sb_printf(struct jj_sb *sb, bool markup, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* str(v) and repr(v). */
int jj_sb_value(struct jj_sb *sb, struct jj_value v);
int jj_sb_repr(struct jj_sb *sb, struct jj_value v);
const struct jj_str *jj_sb_done(struct jj_sb *sb);
/* Like jj_sb_done, into a value. */
int jj_sb_finish(struct jj_sb *sb, struct jj_value *out);

/* str(v). A string is returned itself. */
const struct jj_str *jj_to_str(struct jj *j, struct jj_value v);
/* Python's repr of a float. @out has at least 32 bytes. */
void jj_float_repr(char *out, double f);
