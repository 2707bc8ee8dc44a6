/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-core.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define DEMANDS_MAX 256 /* for one value */
#define MEMO_HEADS  1024

struct memo {
    struct memo *next;
    uint64_t *keys; /* [n] ids of schemas, doubled, plus 1 if negated; sorted */
    size_t n;
    expr_t expr, rule; /* EXPR_ERROR: none yet */
    bool open;         /* being compiled */
};

struct memo_table {
    struct memo *heads[MEMO_HEADS];
};

static int by_number(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* The entry of the list, made if it is new. */
static struct memo *memo_of(struct schema *c, const struct demand *d)
{
    uint64_t keys[DEMANDS_MAX];
    size_t n = 0, kept = 0;
    for (; d; d = d->next) {
        if (d->schema->kind == TREE_TRUE && !d->negated) continue;
        if (n == DEMANDS_MAX) {
            schema_fail(c, error_say(-E2BIG, "more than %d schemas for one value", DEMANDS_MAX));
            return NULL;
        }
        keys[n++] = (uint64_t)d->schema->id * 2 + d->negated;
    }
    qsort(keys, n, sizeof(keys[0]), by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || keys[i] != keys[kept - 1]) keys[kept++] = keys[i];
    if (!c->memos) c->memos = schema_alloc(c, sizeof(*c->memos));
    if (!c->memos) return NULL;
    struct memo **head = &c->memos->heads[XXH3_64bits(keys, kept * sizeof(keys[0])) % MEMO_HEADS];
    for (struct memo *m = *head; m; m = m->next)
        if (m->n == kept && memcmp(m->keys, keys, kept * sizeof(keys[0])) == 0) return m;
    struct memo *m = schema_alloc(c, sizeof(*m));
    if (m) m->keys = schema_alloc(c, kept * sizeof(keys[0]) + 1);
    if (!m || !m->keys) return NULL;
    memcpy(m->keys, keys, kept * sizeof(keys[0]));
    m->n = kept;
    m->expr = m->rule = EXPR_ERROR;
    m->next = *head;
    *head = m;
    return m;
}

/* Any JSON value. */
static expr_t any_value(struct schema *c)
{
    if (c->any_value != EXPR_ERROR) return c->any_value;
    c->any_value = expr_rule(c->b);
    struct shape s = {.types = TYPE_ANY,
                      .text = EXPR_ERROR,
                      .max_length = EXPR_UNLIMITED,
                      .max_items = EXPR_UNLIMITED,
                      .max_properties = EXPR_UNLIMITED};
    expr_define(c->b, c->any_value, compile_shape(c, &s));
    return c->any_value;
}

static expr_t compile_values(struct schema *c, const struct shape *s)
{
    const struct value_set *a = s->allowed;
    uint32_t n = a->single ? 1 : a->values->count, kept = 0;
    expr_t *parts = schema_alloc(c, (n + 1) * sizeof(*parts));
    for (uint32_t i = 0; parts && i < n && !c->err; i++) {
        const struct tree *v = a->single ? a->values : a->values->child[i];
        if (shape_admits(c, s, v)) parts[kept++] = compile_value(c, v, s->types & TYPE_FRACTION);
    }
    return c->err ? EXPR_ERROR : expr_alt(c->b, parts, kept);
}

static bool excludes(struct schema *c, const struct shape *s, enum tree_kind kind)
{
    struct tree v = {.kind = kind};
    for (const struct value_set *x = s->excluded; x; x = x->next)
        if (value_in(c, x, &v)) return true;
    return false;
}

/* Arrays and objects cannot be told from one that is excluded. */
static unsigned refuse_excluded(struct schema *c, const struct shape *s, unsigned types)
{
    for (const struct value_set *x = s->excluded; x; x = x->next) {
        uint32_t n = x->single ? 1 : x->values->count;
        for (uint32_t i = 0; i < n && !c->err; i++) {
            const struct tree *v = x->single ? x->values : x->values->child[i];
            if ((v->kind == TREE_ARRAY && types & TYPE_ARRAY) || (v->kind == TREE_OBJECT && types & TYPE_OBJECT))
                if (shape_admits_but_excluded(c, s, v))
                    schema_refuse(c, x->values, "an array or object that must not be");
        }
    }
    return types;
}

expr_t compile_shape(struct schema *c, const struct shape *s)
{
    if (s->allowed) return compile_values(c, s);
    expr_t parts[8];
    size_t n = 0;
    unsigned types = s->excluded ? refuse_excluded(c, s, s->types) : s->types;
    if (types & TYPE_NULL && !excludes(c, s, TREE_NULL)) parts[n++] = expr_bytes(c->b, "null", 4);
    if (types & TYPE_BOOLEAN && !excludes(c, s, TREE_TRUE)) parts[n++] = expr_bytes(c->b, "true", 4);
    if (types & TYPE_BOOLEAN && !excludes(c, s, TREE_FALSE)) parts[n++] = expr_bytes(c->b, "false", 5);
    if (types & TYPE_NUMBER) parts[n++] = compile_number(c, s);
    if (types & TYPE_STRING && !c->err) parts[n++] = compile_quoted(c, compile_text(c, s));
    if (types & TYPE_ARRAY && !c->err) parts[n++] = compile_array(c, s);
    if (types & TYPE_OBJECT && !c->err) parts[n++] = compile_object(c, s);
    return c->err ? EXPR_ERROR : expr_alt(c->b, parts, n);
}

static expr_t compile_shapes(struct schema *c, const struct demand *d)
{
    struct shapes all;
    if (!schema_shapes(c, d, &all)) return EXPR_ERROR;
    if (all.n == 0) return expr_none(c->b);
    expr_t *parts = schema_alloc(c, all.n * sizeof(*parts));
    for (size_t i = 0; parts && i < all.n && !c->err; i++) parts[i] = compile_shape(c, &all.at[i]);
    return c->err ? EXPR_ERROR : expr_alt(c->b, parts, all.n);
}

expr_t schema_compile(struct schema *c, const struct demand *d)
{
    struct memo *m = c->err ? NULL : memo_of(c, d);
    if (!m) return EXPR_ERROR;
    if (m->expr != EXPR_ERROR) return m->expr;
    if (m->n == 0) return m->expr = any_value(c);
    if (m->open) {
        if (m->rule == EXPR_ERROR) m->rule = expr_rule(c->b);
        return m->rule;
    }
    if (c->depth >= SCHEMA_DEPTH_MAX) {
        schema_fail(c, error_say(-E2BIG, "a schema for values nested deeper than %d", SCHEMA_DEPTH_MAX));
        return EXPR_ERROR;
    }
    const struct tree *at = c->at;
    c->at = d->schema;
    c->depth++;
    m->open = true;
    m->expr = compile_shapes(c, d);
    m->open = false;
    c->depth--;
    c->at = at;
    if (m->rule != EXPR_ERROR && !c->err) {
        expr_define(c->b, m->rule, m->expr);
        m->expr = m->rule;
    }
    return c->err ? EXPR_ERROR : m->expr;
}

expr_t schema_compile_name(struct schema *c, const struct demand *d)
{
    struct shapes all;
    expr_t out = expr_none(c->b);
    if (!schema_shapes(c, d, &all)) return EXPR_ERROR;
    for (size_t i = 0; i < all.n && !c->err; i++) {
        struct shape *s = &all.at[i];
        if (!(s->types & TYPE_STRING)) continue;
        expr_t one = expr_none(c->b);
        uint32_t n = !s->allowed ? 0 : s->allowed->single ? 1 : s->allowed->values->count;
        for (uint32_t k = 0; k < n; k++) {
            const struct tree *v = s->allowed->single ? s->allowed->values : s->allowed->values->child[k];
            if (v->kind == TREE_STRING && shape_admits(c, s, v))
                one = expr_alt(c->b, (expr_t[]){one, spell_text(&c->spelling, v->text, v->count)}, 2);
        }
        if (!s->allowed) one = compile_text(c, s);
        out = expr_alt(c->b, (expr_t[]){out, one}, 2);
    }
    return c->err ? EXPR_ERROR : out;
}
