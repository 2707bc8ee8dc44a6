/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-expand.h"

struct work *work_new(struct schema *c, const struct work *from, const struct work *next, enum work_kind kind)
{
    struct work *w = schema_alloc(c, sizeof(*w));
    if (!w) return NULL;
    *w = (struct work){.next = next,
                       .kind = kind,
                       .demand = from->demand,
                       .via = from->via,
                       .silent = from->silent,
                       .tracked = from->tracked};
    return w;
}

struct work *work_demand(struct schema *c, const struct work *from, const struct work *next, const struct tree *schema,
                         bool negated)
{
    struct work *w = work_new(c, from, next, WORK_DEMAND);
    if (!w) return NULL;
    w->demand = (struct demand){NULL, schema, negated};
    w->silent = w->silent || negated;
    return w;
}

void work_other(struct work *any, struct work *alternative)
{
    if (!any || !alternative) return;
    alternative->other = any->alternatives;
    any->alternatives = alternative;
}

void shape_add_group(struct schema *c, struct shape *s, struct group g)
{
    struct group *copy = schema_alloc(c, sizeof(*copy));
    if (!copy) return;
    *copy = g;
    copy->next = s->groups;
    s->groups = copy;
}

void shape_add_row(struct schema *c, struct shape *s, struct row r)
{
    struct row *copy = schema_alloc(c, sizeof(*copy));
    if (!copy) return;
    *copy = r;
    copy->next = s->rows;
    s->rows = copy;
}

void shape_require(struct schema *c, struct shape *s, const char *name, uint32_t len)
{
    struct names *n = schema_alloc(c, sizeof(*n));
    if (!n) return;
    *n = (struct names){s->required, name, len};
    s->required = n;
}

static void push(const struct work **rest, struct work *w)
{
    if (w) *rest = w;
}

static void hold_properties(struct schema *c, struct shape *s, const struct work *w, const struct words *words)
{
    const struct tree *properties = words->at[WORD_PROPERTIES], *patterns = words->at[WORD_PATTERN_PROPERTIES];
    const struct tree *others = words->at[WORD_ADDITIONAL_PROPERTIES], *required = words->at[WORD_REQUIRED];
    if (properties || patterns || others) {
        struct group g = {.properties = properties, .patterns = patterns, .others = others, .silent = w->silent};
        shape_add_group(c, s, g);
    }
    for (uint32_t i = 0; required && i < required->count; i++)
        shape_require(c, s, required->child[i]->text, required->child[i]->count);
    if (words->at[WORD_PROPERTY_NAMES]) s->names = demand_add(c, s->names, words->at[WORD_PROPERTY_NAMES], false);
}

static void hold_items(struct schema *c, struct shape *s, const struct work *w, const struct words *words)
{
    const struct tree *prefix = words->at[WORD_PREFIX_ITEMS], *rest = words->at[WORD_ITEMS];
    if (!prefix && rest && rest->kind == TREE_ARRAY) prefix = rest, rest = words->at[WORD_ADDITIONAL_ITEMS];
    if (prefix || rest) shape_add_row(c, s, (struct row){.prefix = prefix, .rest = rest, .silent = w->silent});
    const struct tree *contains = words->at[WORD_CONTAINS];
    if (!contains) return;
    struct contains *k = schema_alloc(c, sizeof(*k));
    if (!k) return;
    *k = (struct contains){s->contains, {NULL, contains, false}, 0, 1, EXPR_UNLIMITED};
    if (words->at[WORD_MIN_CONTAINS]) schema_count(c, words->at[WORD_MIN_CONTAINS], &k->min);
    if (words->at[WORD_MAX_CONTAINS]) schema_count(c, words->at[WORD_MAX_CONTAINS], &k->max);
    if (k->min > 0 || k->max != EXPR_UNLIMITED) s->contains = k;
}

static struct work *has(struct schema *c, const struct work *w, const struct work *next, const struct tree *name,
                        const struct tree *key)
{
    struct work *h = work_new(c, w, next, WORK_HAS);
    if (!h) return NULL;
    h->name = name ? name->text : key->key;
    h->name_len = name ? name->count : key->key_len;
    h->demand = (struct demand){NULL, &c->always, false};
    h->silent = true;
    return h;
}

/* { "name": [names] } and { "name": schema }. */
static void hold_dependencies(struct schema *c, const struct work *w, const struct tree *list, const struct work **rest)
{
    for (uint32_t i = 0; list && i < list->count && !c->err; i++) {
        const struct tree *d = list->child[i];
        struct work *any = work_new(c, w, *rest, WORK_ANY), *lacks = work_new(c, w, NULL, WORK_LACKS), *all = NULL;
        if (!any || !lacks) return;
        lacks->name = d->key;
        lacks->name_len = d->key_len;
        if (d->kind == TREE_ARRAY || d->kind == TREE_STRING) {
            for (uint32_t k = 0; d->kind == TREE_ARRAY && k < d->count; k++) all = has(c, w, all, d->child[k], NULL);
            if (d->kind == TREE_STRING) all = has(c, w, all, d, NULL);
        } else {
            all = work_demand(c, w, NULL, d, false);
        }
        work_other(any, has(c, w, all, NULL, d));
        work_other(any, lacks);
        push(rest, any);
    }
}

static void hold_if(struct schema *c, const struct work *w, const struct words *words, const struct work **rest)
{
    const struct tree *cond = words->at[WORD_IF], *then = words->at[WORD_THEN], *other = words->at[WORD_ELSE];
    if (!cond || (!then && !other && !w->tracked)) return;
    struct work *any = work_new(c, w, *rest, WORK_ANY);
    struct work *yes = then ? work_demand(c, w, NULL, then, false) : NULL,
                *no = other ? work_demand(c, w, NULL, other, false) : NULL;
    work_other(any, work_demand(c, w, no, cond, true));
    work_other(any, work_demand(c, w, yes, cond, false));
    push(rest, any);
}

/* Some of the schemas hold. Where it counts which ones (unevaluatedProperties), each set of them is an alternative;
 * that others hold too does no harm, since they only make more properties evaluated. */
static void hold_any_of(struct schema *c, const struct work *w, const struct tree *list, const struct work **rest)
{
    struct work *any = work_new(c, w, *rest, WORK_ANY);
    bool sets = w->tracked && !w->silent;
    if (sets && list->count > 5 && !schema_refuse(c, list, "more than 5 alternatives beside an unevaluated keyword"))
        return;
    for (uint32_t i = 0; !sets && i < list->count; i++)
        work_other(any, work_demand(c, w, NULL, list->child[list->count - 1 - i], false));
    for (unsigned set = 1; sets && list->count <= 5 && set < 1u << list->count; set++) {
        struct work *all = NULL;
        for (uint32_t i = list->count; i > 0; i--)
            if (set >> (i - 1) & 1) all = work_demand(c, w, all, list->child[i - 1], false);
        work_other(any, all);
    }
    push(rest, any);
}

static void hold_unevaluated(struct schema *c, const struct shape *s, const struct work *w, const struct work **rest)
{
    struct work *u = work_new(c, w, *rest, WORK_UNEVALUATED);
    if (!u) return;
    u->groups = s->groups;
    u->rows = s->rows;
    *rest = u;
}

static void hold_references(struct schema *c, const struct work *w, const struct words *words, const struct work **rest)
{
    static const enum schema_word refs[] = {WORD_REF, WORD_DYNAMIC_REF, WORD_RECURSIVE_REF};
    for (int i = 0; i < 3; i++) {
        const struct tree *target = words->at[refs[i]] ? schema_target(c, words->at[refs[i]], i > 0) : NULL;
        if (target) push(rest, work_demand(c, w, *rest, target, false));
    }
}

void hold_schema(struct schema *c, struct shape *s, const struct work *w, const struct words *words,
                 const struct work **rest)
{
    struct work from = *w;
    if (words->at[WORD_UNEVALUATED_PROPERTIES] || words->at[WORD_UNEVALUATED_ITEMS]) {
        hold_unevaluated(c, s, w, rest);
        from.tracked = true;
    }
    w = &from;
    for (int word = 0; word < WORD_COUNT && !c->err; word++)
        if (words->at[word]) hold_limit(c, s, words, (enum schema_word)word);
    hold_properties(c, s, w, words);
    hold_items(c, s, w, words);

    if (words->at[WORD_ANY_OF]) hold_any_of(c, w, words->at[WORD_ANY_OF], rest);
    if (words->at[WORD_ONE_OF]) hold_one_of(c, w, words->at[WORD_ONE_OF], rest);
    hold_if(c, w, words, rest);
    hold_dependencies(c, w, words->at[WORD_DEPENDENCIES], rest);
    hold_dependencies(c, w, words->at[WORD_DEPENDENT_REQUIRED], rest);
    hold_dependencies(c, w, words->at[WORD_DEPENDENT_SCHEMAS], rest);
    if (words->at[WORD_NOT]) push(rest, work_demand(c, w, *rest, words->at[WORD_NOT], true));
    const struct tree *all = words->at[WORD_ALL_OF];
    for (uint32_t i = all ? all->count : 0; i > 0; i--) push(rest, work_demand(c, w, *rest, all->child[i - 1], false));
    hold_references(c, w, words, rest);
}
