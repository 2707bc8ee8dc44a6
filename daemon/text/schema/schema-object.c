/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/object-build.h"
#include "libcommon/error.h"
#include <string.h>

/* The names that the schemas of a shape give to properties, in their order. */
struct naming {
    const char **name;
    uint32_t *len;
    size_t n, cap;
    uint32_t *table; /* open addressing: index plus 1 */
    size_t mask;
};

static size_t count_names(const struct shape *s)
{
    size_t n = 0;
    for (const struct group *g = s->groups; g; g = g->next) n += g->name ? 1 : g->properties ? g->properties->count : 0;
    for (const struct names *r = s->required; r; r = r->next) n++;
    return n;
}

static void add_name(struct naming *all, const char *name, uint32_t len)
{
    size_t at = len * 31;
    for (uint32_t i = 0; i < len; i++) at = at * 131 + (unsigned char)name[i];
    for (at &= all->mask; all->table[at]; at = (at + 1) & all->mask) {
        uint32_t i = all->table[at] - 1;
        if (all->len[i] == len && memcmp(all->name[i], name, len) == 0) return;
    }
    all->name[all->n] = name;
    all->len[all->n++] = len;
    all->table[at] = (uint32_t)all->n;
}

/* The lists of a shape are newest first. */
static void add_groups(struct naming *all, const struct group *g)
{
    if (!g) return;
    add_groups(all, g->next);
    if (g->name) add_name(all, g->name, g->name_len);
    for (uint32_t i = 0; g->properties && i < g->properties->count; i++)
        add_name(all, g->properties->child[i]->key, g->properties->child[i]->key_len);
}

static void add_required(struct naming *all, const struct names *r)
{
    if (!r) return;
    add_required(all, r->next);
    add_name(all, r->name, r->len);
}

static bool find_names(struct schema *c, const struct shape *s, struct naming *all)
{
    size_t most = count_names(s), slots = 8;
    while (slots < most * 2) slots *= 2;
    *all = (struct naming){.cap = most, .mask = slots - 1};
    all->name = schema_alloc(c, (most + 1) * sizeof(*all->name));
    all->len = schema_alloc(c, (most + 1) * sizeof(*all->len));
    all->table = schema_alloc(c, slots * sizeof(*all->table));
    if (c->err) return false;
    add_groups(all, s->groups);
    add_required(all, s->required);
    if (all->n > OBJECT_MEMBERS_MAX)
        schema_fail(c, error_say(-E2BIG, "an object of more than %d properties", OBJECT_MEMBERS_MAX));
    return !c->err;
}

/* How many names are required before this one, which is newer; -1: it is not required. */
static long required_rank(const struct shape *s, const char *name, uint32_t len)
{
    long rank = -1;
    for (const struct names *r = s->required; r; r = r->next)
        if (rank >= 0)
            rank++;
        else if (r->len == len && memcmp(r->name, name, len) == 0)
            rank = 0;
    return rank;
}

static expr_t member_text(struct schema *c, expr_t name, expr_t value)
{
    return expr_seq(c->b, (expr_t[]){compile_quoted(c, name), c->colon, value}, 3);
}

static unsigned count_witnesses(const struct shape *s)
{
    unsigned n = 0;
    for (const struct witness *t = s->witnesses; t; t = t->next) n++;
    return n;
}

/* The written name and value of one named property; *out is none when it must not be there. */
static void make_member(struct schema *c, const struct shape *s, struct member *m, const char *name, uint32_t len)
{
    expr_t none = expr_none(c->b);
    const struct demand *d = key_demands(c, s, name, len);
    long rank = required_rank(s, name, len);
    m->required = rank >= 0;
    m->rank = (size_t)rank;
    expr_t value = schema_compile(c, d), key = spell_text(&c->spelling, name, len);
    m->text = value == none ? none : member_text(c, key, value);
    for (unsigned set = 1; set < 1u << count_witnesses(s); set++) {
        const struct demand *all = d;
        bool named = true;
        unsigned i = 0;
        for (const struct witness *t = s->witnesses; t && !c->err; t = t->next, i++) {
            if (!(set >> i & 1)) continue;
            named = named && witness_names(c, t, name, len);
            all = demand_add(c, all, t->value.schema, t->value.negated);
        }
        value = named ? schema_compile(c, all) : none;
        m->show[set] = value == none ? none : member_text(c, key, value);
    }
}

/* False: a property that is required cannot be there. */
static bool make_members(struct object *o, const struct shape *s, const struct naming *all, expr_t names)
{
    struct schema *c = o->core;
    o->members = schema_alloc(c, (all->n + 1) * sizeof(*o->members));
    for (size_t i = 0; i < all->n && !c->err; i++) {
        struct member *m = &o->members[o->n];
        make_member(c, s, m, all->name[i], all->len[i]);
        bool named = names == c->spelling.text || text_matches(c, names, all->name[i], all->len[i]);
        if (named && m->text != expr_none(c->b))
            o->n++;
        else if (m->required)
            return false;
    }
    return true;
}

static expr_t witness_name(struct schema *c, const struct witness *t, expr_t name)
{
    if (!t->outside) return expr_and(c->b, name, t->name);
    const struct words *w = schema_words(c, t->outside);
    for (uint32_t i = 0; w && w->at[WORD_PATTERN_PROPERTIES] && i < w->at[WORD_PATTERN_PROPERTIES]->count && !c->err;
         i++) {
        const struct tree *p = w->at[WORD_PATTERN_PROPERTIES]->child[i];
        name = expr_and(c->b, name, expr_not(c->b, schema_pattern(c, p->key, p->key_len, p)));
    }
    return name; /* @properties are among the names that others do not have */
}

/* The properties without a name in the schema. @taken as for key_kinds. */
static void make_others(struct object *o, const struct shape *s, expr_t taken, expr_t names)
{
    struct schema *c = o->core;
    expr_t none = expr_none(c->b);
    o->others = none;
    for (unsigned i = 0; i < 1u << OBJECT_WITNESSES_MAX; i++) o->show[i] = none;
    for (struct key_kind *k = key_kinds(c, s, taken, names); k && !c->err; k = k->next)
        for (unsigned set = 0; set < 1u << o->n_witnesses && !c->err; set++) {
            expr_t name = k->name;
            const struct demand *all = k->demands;
            unsigned i = 0;
            for (const struct witness *t = s->witnesses; t && !c->err; t = t->next, i++) {
                if (!(set >> i & 1)) continue;
                name = witness_name(c, t, name);
                all = demand_add(c, all, t->value.schema, t->value.negated);
            }
            expr_t value = name == none || c->err ? none : schema_compile(c, all);
            if (value == none) continue;
            expr_t *to = set ? &o->show[set] : &o->others;
            *to = expr_alt(c->b, (expr_t[]){*to, member_text(c, name, value)}, 2);
        }
}

static expr_t taken_names(struct schema *c, const struct naming *all)
{
    expr_t *parts = schema_alloc(c, (all->n + 1) * sizeof(*parts));
    for (size_t i = 0; parts && i < all->n; i++) parts[i] = spell_text(&c->spelling, all->name[i], all->len[i]);
    return parts ? expr_alt(c->b, parts, all->n) : EXPR_ERROR;
}

/* Which numbers of members must be told apart. Names that the schema does not know may come twice, which counts once.
 */
static bool set_counts(struct object *o, const struct shape *s)
{
    struct schema *c = o->core;
    uint32_t required = 0;
    bool others = o->others != expr_none(c->b);
    for (size_t i = 0; i < o->n; i++) required += o->members[i].required;
    o->min = s->min_properties <= required ? 0 : s->min_properties;
    o->max = s->max_properties;
    if (!others && o->n <= o->max) o->max = EXPR_UNLIMITED;
    if (o->min > 1 && others) {
        if (!schema_refuse(c, s->counted,
                           "more than one property where properties without a name in the schema are allowed"))
            return false;
        o->min = 1;
    }
    o->not_empty = o->min == 1;
    if (o->not_empty) o->min = 0;
    o->cap = o->max != EXPR_UNLIMITED ? o->max + 1 : o->min;
    return true;
}

expr_t compile_object(struct schema *c, const struct shape *s)
{
    struct object o = {.core = c};
    struct naming all;
    expr_t names = s->names ? schema_compile_name(c, s->names) : c->spelling.text;
    o.n_witnesses = count_witnesses(s);
    if (o.n_witnesses > OBJECT_WITNESSES_MAX)
        schema_fail(c,
                    error_say(-E2BIG, "more than %d properties that must differ from a schema", OBJECT_WITNESSES_MAX));
    if (c->err || !find_names(c, s, &all)) return EXPR_ERROR;
    if (!make_members(&o, s, &all, names)) return c->err ? EXPR_ERROR : expr_none(c->b);
    make_others(&o, s, taken_names(c, &all), names);
    if (c->err || !set_counts(&o, s)) return EXPR_ERROR;
    bool any_order = c->options.any_order && o.n_witnesses == 0;
    expr_t members = any_order ? object_any_order(&o) : object_in_order(&o);
    if (c->err) return EXPR_ERROR;
    return expr_seq(c->b, (expr_t[]){c->open_object, members, c->close_object}, 3);
}
