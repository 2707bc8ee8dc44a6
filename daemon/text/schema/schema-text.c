/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/formats.h"
#include "daemon/text/schema/pattern.h"
#include "daemon/text/schema/schema-core.h"
#include "libcommon/error.h"
#include <string.h>
#include <xxhash.h>

#define MEMO_HEADS 256

struct text_memo {
    struct memo_text {
        const struct memo_text *next;
        const char *text;
        uint32_t len;
        bool whole;
        expr_t expr;
    } * heads[MEMO_HEADS];
};

/* Compiles each pattern once. 0, or the error of pattern_parse or pattern_expr with its message. */
static int pattern_once(struct schema *c, const char *text, uint32_t len, bool whole, expr_t *out)
{
    if (!c->patterns) c->patterns = schema_alloc(c, sizeof(*c->patterns));
    if (!c->patterns) return c->err;
    struct memo_text **head = &c->patterns->heads[XXH3_64bits(text, len) % MEMO_HEADS];
    for (const struct memo_text *m = *head; m; m = m->next)
        if (m->len == len && m->whole == whole && memcmp(m->text, text, len) == 0) return *out = m->expr, 0;

    struct pattern *p;
    int e = pattern_parse(&c->arena, &c->spelling, text, len, &p);
    if (e < 0) return e;
    *out = pattern_expr(&c->spelling, p, whole);
    if (*out == EXPR_ERROR) return builder_status(c->b) < 0 ? builder_status(c->b) : -ENOTSUP;
    struct memo_text *m = schema_alloc(c, sizeof(*m));
    if (!m) return c->err;
    *m = (struct memo_text){*head, text, len, whole, *out};
    *head = m;
    return 0;
}

expr_t schema_pattern(struct schema *c, const char *text, uint32_t len, const struct tree *at)
{
    expr_t out;
    if (c->err) return EXPR_ERROR;
    int e = pattern_once(c, text, len, false, &out);
    if (e == 0) return out;
    if (e == -ENOMEM || c->err || builder_status(c->b) < 0) {
        schema_fail(c, e);
        return EXPR_ERROR;
    }
    char why[200];
    strncpy(why, error_text(e), sizeof(why) - 1);
    why[sizeof(why) - 1] = 0;
    return schema_refuse(c, at, "%s", why) ? c->spelling.text : EXPR_ERROR;
}

bool schema_format(struct schema *c, const struct tree *format, expr_t *out)
{
    *out = EXPR_ERROR;
    if (format->kind != TREE_STRING) return schema_invalid(c, format, "a format that is no string"), false;
    const struct format *f = format_find(format->text, format->count);
    if (!f) return true;
    if (!f->pattern) return schema_refuse(c, format, "the format \"%s\"", f->name);
    int e = pattern_once(c, f->pattern, (uint32_t)strlen(f->pattern), true, out);
    if (e == 0 && f->other) {
        expr_t other = EXPR_ERROR;
        e = pattern_once(c, f->other, (uint32_t)strlen(f->other), true, &other);
        if (e == 0) *out = expr_alt(c->b, (expr_t[]){*out, other}, 2);
    }
    if (e < 0) schema_fail(c, e);
    return e == 0;
}

/* The shortest written form; not of the raw one. */
static char *write_text(struct schema *c, const char *text, uint32_t len, size_t *n)
{
    static const char hex[] = "0123456789abcdef";
    char *out = schema_alloc(c, (size_t)len * 6 + 1);
    *n = 0;
    for (uint32_t i = 0; out && i < len; i++) {
        unsigned char b = (unsigned char)text[i];
        if (b == '"' || b == '\\') out[(*n)++] = '\\';
        if (b >= 0x20) {
            out[(*n)++] = (char)b;
            continue;
        }
        memcpy(out + *n, "\\u00", 4);
        out[*n + 4] = hex[b >> 4];
        out[*n + 5] = hex[b & 15];
        *n += 6;
    }
    return out;
}

bool text_matches(struct schema *c, expr_t e, const char *text, uint32_t len)
{
    size_t n = len;
    const char *written = c->spelling.raw ? text : write_text(c, text, len, &n);
    if (!written) return false;
    int r = expr_matches(c->b, e, written, n);
    if (r < 0) schema_fail(c, r);
    return r == 1;
}

expr_t compile_quoted(struct schema *c, expr_t text)
{
    expr_t quote = expr_bytes(c->b, "\"", 1);
    return expr_seq(c->b, (expr_t[]){quote, text, quote}, 3);
}

expr_t compile_text(struct schema *c, const struct shape *s)
{
    bool any_length = s->min_length == 0 && s->max_length == EXPR_UNLIMITED;
    expr_t out = any_length ? c->spelling.text : expr_repeat(c->b, c->spelling.any, s->min_length, s->max_length);
    if (s->text != EXPR_ERROR) out = any_length ? s->text : expr_and(c->b, s->text, out);
    for (const struct value_set *x = s->excluded; x; x = x->next) {
        uint32_t n = x->single ? 1 : x->values->count;
        for (uint32_t i = 0; i < n && schema_step(c); i++) {
            const struct tree *v = x->single ? x->values : x->values->child[i];
            if (v->kind == TREE_STRING)
                out = expr_and(c->b, out, expr_not(c->b, spell_text(&c->spelling, v->text, v->count)));
        }
    }
    return out;
}
