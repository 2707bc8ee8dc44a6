/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-core.h"
#include "libcommon/utf8.h"
#include <string.h>

static bool numbers_equal(const struct tree *x, const struct tree *y)
{
    struct jj_arena a = {0};
    struct decimal p, q;
    bool equal = x->count == y->count && memcmp(x->text, y->text, x->count) == 0;
    if (!equal && decimal_parse(&a, x->text, x->count, &p) == 0 && decimal_parse(&a, y->text, y->count, &q) == 0)
        equal = decimal_compare(&p, &q) == 0;
    jj_arena_fini(&a);
    return equal;
}

bool values_equal(const struct tree *x, const struct tree *y)
{
    if (x->kind != y->kind) return false;
    if (x->kind == TREE_NUMBER) return numbers_equal(x, y);
    if (x->count != y->count) return false;
    if (x->kind == TREE_STRING) return memcmp(x->text, y->text, x->count) == 0;
    for (uint32_t i = 0; x->kind >= TREE_ARRAY && i < x->count; i++) {
        const struct tree *other =
            x->kind == TREE_ARRAY ? y->child[i] : tree_member(y, x->child[i]->key, x->child[i]->key_len);
        if (!other || !values_equal(x->child[i], other)) return false;
    }
    return true;
}

bool value_in(struct schema *c, const struct value_set *set, const struct tree *v)
{
    if (set->single) return values_equal(set->values, v);
    for (uint32_t i = 0; i < set->values->count && schema_step(c); i++)
        if (values_equal(set->values->child[i], v)) return true;
    return false;
}

static bool admits_number(struct schema *c, const struct shape *s, const struct tree *v, bool *is_integer)
{
    struct decimal d;
    if (decimal_parse(&c->arena, v->text, v->count, &d) < 0) return false;
    *is_integer = decimal_is_integer(&d);
    int lo = s->lo.value ? decimal_compare(&d, s->lo.value) : 1,
        hi = s->hi.value ? decimal_compare(&d, s->hi.value) : -1;
    if (lo < 0 || (lo == 0 && s->lo.exclusive) || hi > 0 || (hi == 0 && s->hi.exclusive)) return false;
    for (const struct factor *f = s->factors; f; f = f->next) {
        int divides = decimal_divides(f->value, &d);
        if (divides < 0 && !schema_refuse(c, f->at, "of more than 18 digits")) return false;
        if (divides >= 0 && divides != !f->negated) return false;
    }
    return true;
}

static bool admits_text(struct schema *c, const struct shape *s, const char *text, uint32_t len)
{
    uint32_t chars = 0;
    for (uint32_t i = 0; i < len; i++) chars += ((unsigned char)text[i] & 0xC0) != 0x80;
    if (chars < s->min_length || chars > s->max_length) return false;
    return s->text == EXPR_ERROR || text_matches(c, s->text, text, len);
}

static bool admits_array(struct schema *c, const struct shape *s, const struct tree *v)
{
    if (v->count < s->min_items || v->count > s->max_items) return false;
    for (uint32_t i = 0; i < v->count && !c->err; i++)
        if (!schema_admits(c, row_demands(c, s, i), v->child[i])) return false;
    for (const struct contains *k = s->contains; k; k = k->next) {
        uint32_t n = 0;
        for (uint32_t i = k->from; i < v->count; i++) n += schema_admits(c, &k->demand, v->child[i]);
        if (n < k->min || n > k->max) return false;
    }
    for (uint32_t i = 0; s->unique && i < v->count; i++)
        for (uint32_t j = 0; j < i && schema_step(c); j++)
            if (values_equal(v->child[i], v->child[j])) return false;
    return !c->err;
}

static bool is_witness(struct schema *c, const struct witness *t, const struct tree *member)
{
    return witness_names(c, t, member->key, member->key_len) && schema_admits(c, &t->value, member);
}

static bool admits_object(struct schema *c, const struct shape *s, const struct tree *v)
{
    if (v->count < s->min_properties || v->count > s->max_properties) return false;
    for (const struct names *n = s->required; n; n = n->next)
        if (!tree_member(v, n->name, n->len)) return false;
    for (uint32_t i = 0; i < v->count && !c->err; i++) {
        const struct tree *m = v->child[i];
        struct tree name = {.kind = TREE_STRING, .text = m->key, .count = m->key_len};
        if (s->names && !schema_admits(c, s->names, &name)) return false;
        if (!schema_admits(c, key_demands(c, s, m->key, m->key_len), m)) return false;
    }
    for (const struct witness *t = s->witnesses; t; t = t->next) {
        bool found = false;
        for (uint32_t i = 0; i < v->count && !found && !c->err; i++) found = is_witness(c, t, v->child[i]);
        if (!found) return false;
    }
    return !c->err;
}

bool shape_admits(struct schema *c, const struct shape *s, const struct tree *v)
{
    static const unsigned types[] = {TYPE_NULL,   TYPE_BOOLEAN, TYPE_BOOLEAN, TYPE_NUMBER,
                                     TYPE_STRING, TYPE_ARRAY,   TYPE_OBJECT};
    if (!schema_step(c) || !(s->types & types[v->kind])) return false;
    for (const struct value_set *a = s->allowed; a; a = a->next)
        if (!value_in(c, a, v)) return false;
    for (const struct value_set *a = s->excluded; a; a = a->next)
        if (value_in(c, a, v)) return false;
    bool is_integer;
    switch (v->kind) {
    case TREE_NUMBER:
        return admits_number(c, s, v, &is_integer) && s->types & (is_integer ? TYPE_INTEGER : TYPE_FRACTION);
    case TREE_STRING:
        return admits_text(c, s, v->text, v->count);
    case TREE_ARRAY:
        return admits_array(c, s, v);
    case TREE_OBJECT:
        return admits_object(c, s, v);
    default:
        return true;
    }
}

bool shape_admits_but_excluded(struct schema *c, const struct shape *s, const struct tree *v)
{
    struct shape all = *s;
    all.excluded = NULL;
    return shape_admits(c, &all, v);
}

bool schema_admits(struct schema *c, const struct demand *d, const struct tree *v)
{
    struct shapes all;
    if (!d) return true;
    if (!schema_shapes(c, d, &all)) return false;
    for (size_t i = 0; i < all.n && !c->err; i++)
        if (shape_admits(c, &all.at[i], v)) return true;
    return false;
}
