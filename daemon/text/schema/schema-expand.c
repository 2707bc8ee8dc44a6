/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-expand.h"
#include "libcommon/error.h"
#include <string.h>

static bool expand(struct schema *c, struct shape s, const struct work *w, struct shapes *out);

static void add_shape(struct schema *c, const struct shape *s, struct shapes *out)
{
    if (out->n == SCHEMA_SHAPES_MAX) {
        schema_fail(c, error_say(-E2BIG, "a schema with more than %d combinations of its alternatives for one value",
                                 SCHEMA_SHAPES_MAX));
        return;
    }
    if (out->n == out->cap) {
        size_t cap = out->cap ? out->cap * 2 : 2;
        struct shape *at = schema_alloc(c, cap * sizeof(*at));
        if (!at) return;
        if (out->n) memcpy(at, out->at, out->n * sizeof(*at));
        out->at = at;
        out->cap = cap;
    }
    out->at[out->n++] = *s;
}

/* The work of @list, then @rest. */
static const struct work *join(struct schema *c, const struct work *list, const struct work *rest)
{
    if (!list || c->err) return rest;
    const struct work *tail = join(c, list->next, rest);
    struct work *copy = schema_alloc(c, sizeof(*copy));
    if (!copy) return rest;
    *copy = *list;
    copy->next = tail;
    return copy;
}

/* Every alternative with a copy of the shape. */
static bool branch(struct schema *c, const struct shape *s, const struct work *any, struct shapes *out)
{
    if (shape_is_none(c, s)) return !c->err;
    for (const struct work *a = any->alternatives; a && !c->err; a = a->other)
        expand(c, *s, join(c, a, any->next), out);
    return !c->err;
}

/* A schema that contains itself at the same place of a value would never be decided. */
static bool is_circular(struct schema *c, const struct work *w)
{
    for (const struct via *v = w->via; v; v = v->next)
        if (v->demand.schema == w->demand.schema && v->demand.negated == w->demand.negated) {
            schema_invalid(c, w->demand.schema, "a schema that refers to itself for the same value");
            return true;
        }
    if (!w->via || w->via->depth < SCHEMA_REFS_MAX) return false;
    schema_fail(c, error_say(-E2BIG, "a schema with more than %d references or combinations inside each other",
                             SCHEMA_REFS_MAX));
    return true;
}

static void run_demand(struct schema *c, struct shape *s, const struct work *w, const struct work **rest)
{
    const struct tree *schema = w->demand.schema;
    if (schema->kind == TREE_TRUE || schema->kind == TREE_FALSE) {
        if ((schema->kind == TREE_TRUE) == w->demand.negated) s->types = 0;
        return;
    }
    if (schema->kind != TREE_OBJECT) {
        schema_invalid(c, schema, "a schema that is neither an object nor a boolean");
        return;
    }
    const struct words *words = schema_words(c, schema);
    struct via *via = schema_alloc(c, sizeof(*via));
    if (!words || !via || is_circular(c, w)) return;
    *via = (struct via){w->via, w->demand, w->via ? w->via->depth + 1 : 1};
    struct work from = *w;
    from.via = via;
    if (w->demand.negated)
        negate_schema(c, &from, words, rest);
    else
        hold_schema(c, s, &from, words, rest);
}

static void run_property(struct schema *c, struct shape *s, const struct work *w)
{
    struct group g = {.name = w->name, .name_len = w->name_len, .demand = w->demand, .silent = true};
    if (w->kind == WORK_HAS || w->index) s->types &= TYPE_OBJECT;
    if (w->kind == WORK_HAS) shape_require(c, s, w->name, w->name_len);
    if (w->kind == WORK_LACKS) g.demand = (struct demand){NULL, &c->never, false};
    if (w->kind == WORK_LACKS || w->demand.schema->kind != TREE_TRUE || w->demand.negated) shape_add_group(c, s, g);
}

static void run_element(struct schema *c, struct shape *s, const struct work *w)
{
    s->types &= TYPE_ARRAY;
    if (s->min_items < w->index + 1) s->min_items = w->index + 1;
    shape_add_row(c, s, (struct row){.is_single = true, .index = w->index, .demand = w->demand, .silent = true});
}

static void run_unevaluated(struct schema *c, struct shape *s, const struct work *w)
{
    const struct words *words = schema_words(c, w->demand.schema);
    const struct tree *properties = words ? words->at[WORD_UNEVALUATED_PROPERTIES] : NULL;
    const struct tree *items = words ? words->at[WORD_UNEVALUATED_ITEMS] : NULL;
    if (properties) {
        struct group g = {.others = properties,
                          .beyond = s->groups,
                          .beyond_end = w->groups,
                          .has_beyond = true,
                          .silent = w->silent};
        shape_add_group(c, s, g);
    }
    if (!items) return;
    if (s->contains && (s->types & TYPE_ARRAY) && items->kind != TREE_TRUE &&
        !schema_refuse(c, items, "beside contains"))
        return;
    shape_add_row(
        c, s,
        (struct row){.rest = items, .beyond = s->rows, .beyond_end = w->rows, .has_beyond = true, .silent = w->silent});
}

static void run_contains(struct schema *c, struct shape *s, const struct work *w)
{
    struct contains *k = schema_alloc(c, sizeof(*k));
    if (!k) return;
    *k = (struct contains){s->contains, w->demand, w->index, w->min, w->max};
    s->contains = k;
    s->types &= TYPE_ARRAY;
}

static void run_witness(struct schema *c, struct shape *s, const struct work *w)
{
    s->types &= TYPE_OBJECT;
    for (const struct witness *x = s->witnesses; x; x = x->next)
        if (x->name == w->witness->name && x->outside == w->witness->outside &&
            x->value.schema == w->witness->value.schema)
            return;
    struct witness *t = schema_alloc(c, sizeof(*t));
    if (!t) return;
    *t = *w->witness;
    t->next = s->witnesses;
    s->witnesses = t;
}

/* Puts all of @w into @s, which may give several shapes or none. */
static bool expand(struct schema *c, struct shape s, const struct work *w, struct shapes *out)
{
    while (w && s.types) {
        if (!schema_step(c)) return false;
        const struct work *rest = w->next;
        switch (w->kind) {
        case WORK_DEMAND:
            run_demand(c, &s, w, &rest);
            break;
        case WORK_LACKS:
        case WORK_HAS:
            run_property(c, &s, w);
            break;
        case WORK_ELEMENT:
            run_element(c, &s, w);
            break;
        case WORK_VIOLATES:
            violate_limit(c, &s, schema_words(c, w->demand.schema), w->word);
            break;
        case WORK_CONTAINS:
            run_contains(c, &s, w);
            break;
        case WORK_WITNESS:
            run_witness(c, &s, w);
            break;
        case WORK_UNEVALUATED:
            run_unevaluated(c, &s, w);
            break;
        case WORK_ANY:
            return branch(c, &s, w, out);
        }
        if (c->err) return false;
        w = rest;
    }
    if (s.types && !shape_is_none(c, &s)) add_shape(c, &s, out);
    return !c->err;
}

/* The work of the demands, in their order. */
static const struct work *first_work(struct schema *c, const struct demand *d)
{
    static const struct work nothing;
    if (!d || c->err) return NULL;
    return work_demand(c, &nothing, first_work(c, d->next), d->schema, d->negated);
}

bool schema_shapes(struct schema *c, const struct demand *d, struct shapes *out)
{
    struct shape s = {.types = TYPE_ANY, .text = EXPR_ERROR};
    s.max_length = s.max_items = s.max_properties = EXPR_UNLIMITED;
    *out = (struct shapes){0};
    return expand(c, s, first_work(c, d), out);
}
