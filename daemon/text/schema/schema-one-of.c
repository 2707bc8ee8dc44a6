/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-expand.h"
#include "libcommon/error.h"

#define ONE_OF_MAX 500

/* Which pairs of the list are proved to have no value in common: [n][n] of 0 not tried, 1 proved, 2 not proved. */
static uint8_t *proofs(struct schema *c, const struct tree *list)
{
    if (!list->words) ((struct tree *)list)->words = schema_alloc(c, (size_t)list->count * list->count);
    return list->words;
}

static const struct words *words_of(struct schema *c, const struct tree *schema)
{
    const struct words *w = schema->kind == TREE_OBJECT ? schema_words(c, schema) : NULL;
    for (int i = 0; w && w->at[WORD_REF] && i < 8; i++) {
        schema = schema_target(c, w->at[WORD_REF], false);
        w = schema && schema->kind == TREE_OBJECT ? schema_words(c, schema) : NULL;
    }
    return w;
}

/* The only value of property @name that the schema allows, if it requires the property. */
static const struct tree *fixed_value(struct schema *c, const struct words *w, const struct tree *name)
{
    const struct tree *p = tree_member(w->at[WORD_PROPERTIES], name->text, name->count);
    const struct words *words = p ? words_of(c, p) : NULL;
    if (!words || !w->at[WORD_TYPE] || schema_types(c, w->at[WORD_TYPE]) != TYPE_OBJECT) return NULL;
    if (words->at[WORD_CONST]) return words->at[WORD_CONST];
    return words->at[WORD_ENUM] && words->at[WORD_ENUM]->count == 1 ? words->at[WORD_ENUM]->child[0] : NULL;
}

/* The usual cases, without expanding the schemas: other types, or another value of a required property. */
static bool plainly_disjoint(struct schema *c, const struct tree *x, const struct tree *y)
{
    const struct words *a = words_of(c, x), *b = words_of(c, y);
    if (!a || !b) return false;
    if (a->at[WORD_TYPE] && b->at[WORD_TYPE] &&
        !(schema_types(c, a->at[WORD_TYPE]) & schema_types(c, b->at[WORD_TYPE])))
        return true;
    const struct tree *required = a->at[WORD_REQUIRED];
    for (uint32_t i = 0; required && i < required->count; i++) {
        const struct tree *v = fixed_value(c, a, required->child[i]),
                          *u = v ? fixed_value(c, b, required->child[i]) : NULL;
        const struct tree *also = u ? b->at[WORD_REQUIRED] : NULL;
        for (uint32_t k = 0; also && k < also->count; k++)
            if (values_equal(also->child[k], required->child[i]) && !values_equal(u, v)) return true;
    }
    return false;
}

static bool disjoint(struct schema *c, const struct tree *list, uint8_t *proof, uint32_t i, uint32_t k)
{
    if (i < k) {
        uint32_t t = i;
        i = k;
        k = t;
    }
    uint8_t *p = &proof[(size_t)i * list->count + k];
    if (*p == 0) {
        const struct tree *x = list->child[i], *y = list->child[k];
        struct demand second = {NULL, y, false}, first = {&second, x, false};
        *p = plainly_disjoint(c, x, y) || schema_is_none(c, &first) ? 1 : 2;
    }
    return *p == 1;
}

/* Each schema holds with none of those that could hold beside it. */
void hold_one_of(struct schema *c, const struct work *w, const struct tree *list, const struct work **rest)
{
    if (list->count > ONE_OF_MAX) {
        schema_fail(c, error_say(-E2BIG, "a oneOf of more than %d schemas", ONE_OF_MAX));
        return;
    }
    struct work *any = work_new(c, w, *rest, WORK_ANY);
    uint8_t *proof = proofs(c, list);
    for (uint32_t i = list->count; i > 0 && proof && !c->err; i--) {
        struct work *one = NULL;
        for (uint32_t k = 0; k < list->count && !c->err; k++)
            if (k != i - 1 && !disjoint(c, list, proof, i - 1, k)) one = work_demand(c, w, one, list->child[k], true);
        work_other(any, work_demand(c, w, one, list->child[i - 1], false));
    }
    if (any) *rest = any;
}
