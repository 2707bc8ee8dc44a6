/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-core.h"
#include <errno.h>

#define PROBE_DEPTH  2   /* of questions inside questions */
#define PROBE_STATES 100 /* of an automaton */
#define PROBES_MAX   500 /* of texts, each of PROBE_STATES; later ones are not decided */

/* A list of one schema that must hold is empty only by its own fault: not worth the question. */
static bool is_suspect(const struct demand *d)
{
    for (const struct demand *x = d; x; x = x->next)
        if (x->schema->kind == TREE_FALSE) return true;
    return d && (d->next || d->negated);
}

/* Asks once for each expression. */
static bool is_none(struct schema *c, expr_t e)
{
    size_t at = e % (sizeof(c->asked) / sizeof(c->asked[0]));
    if (c->asked[at].expr == e && e != 0) return c->asked[at].none;
    if (c->n_asked >= PROBES_MAX) return false;
    c->n_asked++;
    c->asked[at].expr = e;
    return c->asked[at].none = expr_is_none(c->b, e, PROBE_STATES) == 1;
}

static bool text_is_none(struct schema *c, const struct shape *s)
{
    if (s->min_length > s->max_length) return true;
    if (s->text == EXPR_ERROR) return false;
    if (s->text == expr_none(c->b)) return true;
    return s->text != c->spelling.text && is_none(c, s->text);
}

static bool number_is_none(const struct shape *s)
{
    if (!s->lo.value || !s->hi.value) return false;
    int r = decimal_compare(s->lo.value, s->hi.value);
    return r > 0 || (r == 0 && (s->lo.exclusive || s->hi.exclusive));
}

static bool array_is_none(struct schema *c, const struct shape *s)
{
    if (s->min_items > s->max_items) return true;
    for (uint32_t i = 0; i < s->min_items && i < 16 && !c->err; i++) {
        const struct demand *d = row_demands(c, s, i);
        if (is_suspect(d) && schema_is_none(c, d)) return true;
    }
    return false;
}

static bool object_is_none(struct schema *c, const struct shape *s)
{
    if (s->min_properties > s->max_properties) return true;
    uint32_t n = 0;
    for (const struct names *r = s->required; r && !c->err; r = r->next, n++) {
        const struct demand *d = key_demands(c, s, r->name, r->len);
        if (is_suspect(d) && schema_is_none(c, d)) return true;
    }
    return false;
}

static bool values_are_none(struct schema *c, const struct shape *s)
{
    const struct value_set *a = s->allowed;
    if (!a) return false;
    uint32_t n = a->single ? 1 : a->values->count;
    for (uint32_t i = 0; i < n && !c->err; i++)
        if (shape_admits(c, s, a->single ? a->values : a->values->child[i])) return false;
    return true;
}

bool shape_is_none(struct schema *c, const struct shape *s)
{
    unsigned types = s->types;
    if (c->err || c->probes > PROBE_DEPTH) return false;
    if (s->allowed) {
        c->probes++;
        bool none = values_are_none(c, s);
        c->probes--;
        return none;
    }
    if (types & TYPE_NUMBER && number_is_none(s)) types &= ~(unsigned)TYPE_NUMBER;
    if (types == TYPE_STRING && text_is_none(c, s)) types &= ~(unsigned)TYPE_STRING;
    if (types == TYPE_ARRAY && array_is_none(c, s)) types &= ~(unsigned)TYPE_ARRAY;
    if (types == TYPE_OBJECT && object_is_none(c, s)) types &= ~(unsigned)TYPE_OBJECT;
    return types == 0;
}

bool schema_is_none(struct schema *c, const struct demand *d)
{
    struct shapes all;
    if (c->err || c->probes >= PROBE_DEPTH) return false;
    c->probes++;
    c->quiet++;
    bool none = schema_shapes(c, d, &all) && all.n == 0;
    c->quiet--;
    c->probes--;
    if (c->err && c->err != -ENOMEM && c->steps <= SCHEMA_STEPS_MAX && builder_status(c->b) == 0) c->err = 0;
    return none && c->err == 0;
}
