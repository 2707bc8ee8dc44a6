/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-expand.h"

/* A schema does not hold when one of its keywords does not: each way is an alternative of @any. */
struct negation {
    struct schema *core;
    const struct work *from;
    const struct words *words;
    struct work *any;
};

static struct work *of_kind(struct negation *n, const struct work *next, enum work_kind kind, const char *name,
                            uint32_t len)
{
    struct work *w = work_new(n->core, n->from, next, kind);
    if (!w) return NULL;
    w->name = name;
    w->name_len = len;
    w->demand = (struct demand){NULL, &n->core->always, false};
    w->silent = true;
    return w;
}

static struct work * not(struct negation * n, const struct work *next, const struct tree *schema)
{
    return work_demand(n->core, n->from, next, schema, true);
}

static void negate_limits(struct negation *n)
{
    static const enum schema_word limits[] = {WORD_TYPE,
                                              WORD_ENUM,
                                              WORD_CONST,
                                              WORD_MINIMUM,
                                              WORD_MAXIMUM,
                                              WORD_MIN_LENGTH,
                                              WORD_MAX_LENGTH,
                                              WORD_PATTERN,
                                              WORD_FORMAT,
                                              WORD_MIN_ITEMS,
                                              WORD_MAX_ITEMS,
                                              WORD_UNIQUE_ITEMS,
                                              WORD_MIN_PROPERTIES,
                                              WORD_MAX_PROPERTIES,
                                              WORD_MULTIPLE_OF,
                                              WORD_EXCLUSIVE_MINIMUM,
                                              WORD_EXCLUSIVE_MAXIMUM};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (!n->words->at[limits[i]]) continue;
        struct work *w = of_kind(n, NULL, WORK_VIOLATES, NULL, 0);
        if (!w) return;
        w->word = limits[i];
        w->demand = n->from->demand;
        work_other(n->any, w);
    }
}

static void negate_required(struct negation *n)
{
    const struct tree *required = n->words->at[WORD_REQUIRED];
    for (uint32_t i = 0; required && i < required->count; i++) {
        struct work *w = of_kind(n, NULL, WORK_LACKS, required->child[i]->text, required->child[i]->count);
        if (w) w->index = 1;
        work_other(n->any, w);
    }
}

static void add_witness(struct negation *n, expr_t name, const struct tree *outside, const struct tree *schema)
{
    struct work *w = of_kind(n, NULL, WORK_WITNESS, NULL, 0);
    struct witness *t = schema_alloc(n->core, sizeof(*t));
    if (!w || !t) return;
    *t = (struct witness){NULL, name, outside, {NULL, schema, true}};
    w->witness = t;
    work_other(n->any, w);
}

static void negate_properties(struct negation *n)
{
    struct schema *c = n->core;
    const struct tree *properties = n->words->at[WORD_PROPERTIES], *patterns = n->words->at[WORD_PATTERN_PROPERTIES];
    for (uint32_t i = 0; properties && i < properties->count; i++) {
        const struct tree *p = properties->child[i];
        struct work *w = of_kind(n, NULL, WORK_HAS, p->key, p->key_len);
        if (!w) return;
        w->demand = (struct demand){NULL, p, true};
        work_other(n->any, w);
    }
    for (uint32_t i = 0; patterns && i < patterns->count && !c->err; i++) {
        const struct tree *p = patterns->child[i];
        expr_t name = schema_pattern(c, p->key, p->key_len, p);
        if (name != EXPR_ERROR) add_witness(n, name, NULL, p);
    }
    const struct tree *others = n->words->at[WORD_ADDITIONAL_PROPERTIES], *names = n->words->at[WORD_PROPERTY_NAMES];
    if (others && others->kind != TREE_TRUE) add_witness(n, EXPR_ERROR, n->from->demand.schema, others);
    if (names && names->kind != TREE_TRUE) {
        expr_t good = schema_compile_name(c, &(struct demand){NULL, names, false});
        if (good != EXPR_ERROR) add_witness(n, expr_and(c->b, c->spelling.text, expr_not(c->b, good)), NULL, &c->never);
    }
}

static void negate_dependencies(struct negation *n, const struct tree *list)
{
    for (uint32_t i = 0; list && i < list->count && !n->core->err; i++) {
        const struct tree *d = list->child[i];
        if (d->kind == TREE_ARRAY) {
            for (uint32_t k = 0; k < d->count; k++) {
                struct work *lacks = of_kind(n, NULL, WORK_LACKS, d->child[k]->text, d->child[k]->count);
                work_other(n->any, of_kind(n, lacks, WORK_HAS, d->key, d->key_len));
            }
        } else if (d->kind == TREE_STRING) {
            struct work *lacks = of_kind(n, NULL, WORK_LACKS, d->text, d->count);
            work_other(n->any, of_kind(n, lacks, WORK_HAS, d->key, d->key_len));
        } else {
            work_other(n->any, of_kind(n, not(n, NULL, d), WORK_HAS, d->key, d->key_len));
        }
    }
}

static void add_contains(struct negation *n, uint32_t from, const struct tree *schema, bool negated, uint32_t min,
                         uint32_t max)
{
    struct work *w = of_kind(n, NULL, WORK_CONTAINS, NULL, 0);
    if (!w) return;
    w->demand = (struct demand){NULL, schema, negated};
    w->index = from;
    w->min = min;
    w->max = max;
    work_other(n->any, w);
}

static void negate_items(struct negation *n)
{
    const struct tree *prefix = n->words->at[WORD_PREFIX_ITEMS], *rest = n->words->at[WORD_ITEMS];
    if (!prefix && rest && rest->kind == TREE_ARRAY) prefix = rest, rest = n->words->at[WORD_ADDITIONAL_ITEMS];
    for (uint32_t i = 0; prefix && i < prefix->count; i++) {
        struct work *w = of_kind(n, NULL, WORK_ELEMENT, NULL, 0);
        if (!w) return;
        w->index = i;
        w->demand = (struct demand){NULL, prefix->child[i], true};
        work_other(n->any, w);
    }
    if (rest && rest->kind != TREE_TRUE) add_contains(n, prefix ? prefix->count : 0, rest, true, 1, EXPR_UNLIMITED);
    const struct tree *contains = n->words->at[WORD_CONTAINS];
    uint32_t min = 1, max = EXPR_UNLIMITED;
    if (!contains) return;
    if (n->words->at[WORD_MIN_CONTAINS]) schema_count(n->core, n->words->at[WORD_MIN_CONTAINS], &min);
    if (n->words->at[WORD_MAX_CONTAINS]) schema_count(n->core, n->words->at[WORD_MAX_CONTAINS], &max);
    if (min > 0) add_contains(n, 0, contains, false, 0, min - 1);
    if (max != EXPR_UNLIMITED) add_contains(n, 0, contains, false, max + 1, EXPR_UNLIMITED);
}

static void negate_combinations(struct negation *n)
{
    struct schema *c = n->core;
    const struct tree *all = n->words->at[WORD_ALL_OF], *some = n->words->at[WORD_ANY_OF],
                      *one = n->words->at[WORD_ONE_OF];
    for (uint32_t i = 0; all && i < all->count; i++) work_other(n->any, not(n, NULL, all->child[i]));
    struct work *none = NULL;
    for (uint32_t i = 0; some && i < some->count; i++) none = not(n, none, some->child[i]);
    work_other(n->any, none);
    none = NULL;
    for (uint32_t i = 0; one && i < one->count; i++) none = not(n, none, one->child[i]);
    work_other(n->any, none);
    for (uint32_t i = 0; one && i < one->count; i++)
        for (uint32_t k = 0; k < i && !c->err; k++)
            if (!schema_is_none(c,
                                &(struct demand){&(struct demand){NULL, one->child[k], false}, one->child[i], false}))
                work_other(n->any, work_demand(c, n->from, work_demand(c, n->from, NULL, one->child[k], false),
                                               one->child[i], false));

    if (n->words->at[WORD_NOT]) work_other(n->any, work_demand(c, n->from, NULL, n->words->at[WORD_NOT], false));
    const struct tree *cond = n->words->at[WORD_IF], *then = n->words->at[WORD_THEN], *other = n->words->at[WORD_ELSE];
    if (cond && then) work_other(n->any, work_demand(c, n->from, not(n, NULL, then), cond, false));
    if (cond && other) work_other(n->any, not(n, not(n, NULL, other), cond));
    static const enum schema_word refs[] = {WORD_REF, WORD_DYNAMIC_REF, WORD_RECURSIVE_REF};
    for (int i = 0; i < 3; i++) {
        const struct tree *target = n->words->at[refs[i]] ? schema_target(c, n->words->at[refs[i]], i > 0) : NULL;
        if (target) work_other(n->any, not(n, NULL, target));
    }
}

static bool is_true(const struct tree *at)
{
    return !at || at->kind == TREE_TRUE;
}

void negate_schema(struct schema *c, const struct work *w, const struct words *words, const struct work **rest)
{
    struct negation n = {c, w, words, work_new(c, w, *rest, WORK_ANY)};
    if (!n.any) return;
    n.any->silent = true;
    static const enum schema_word unevaluated[] = {WORD_UNEVALUATED_PROPERTIES, WORD_UNEVALUATED_ITEMS};
    for (int i = 0; i < 2; i++)
        if (!is_true(words->at[unevaluated[i]]) && !schema_refuse(c, words->at[unevaluated[i]], "inside a \"not\""))
            return;
    negate_limits(&n);
    negate_required(&n);
    negate_properties(&n);
    negate_dependencies(&n, words->at[WORD_DEPENDENCIES]);
    negate_dependencies(&n, words->at[WORD_DEPENDENT_REQUIRED]);
    negate_dependencies(&n, words->at[WORD_DEPENDENT_SCHEMAS]);
    negate_items(&n);
    negate_combinations(&n);
    *rest = n.any;
}
