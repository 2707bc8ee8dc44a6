/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/object-build.h"
#include "libcommon/error.h"

#define RULE_EVERY 16 /* members: a rule, so that the sequences that share an end are not written out each time */

/* A place in an object: before member @at (n: before the others), after @count members, with witnesses @seen. */
struct spot {
    size_t at;
    uint32_t count;
    unsigned seen;
};

struct order {
    struct object *o;
    struct schema *core;
    expr_t *memo; /* [n + 1][cap + 1][2^witnesses] what follows a spot when something stands before it */
};

static expr_t after(struct order *r, struct spot p);

static expr_t seq2(struct schema *c, expr_t x, expr_t y)
{
    return expr_seq(c->b, (expr_t[]){x, y}, 2);
}

static struct spot next_spot(const struct order *r, struct spot p, bool stay, unsigned seen)
{
    return (struct spot){p.at + !stay, p.count < r->o->cap ? p.count + 1 : p.count, p.seen | seen};
}

/* @text with the comma, if one belongs there, and what follows. */
static expr_t then(struct order *r, bool first, expr_t text, struct spot next)
{
    if (text == expr_none(r->core->b) || next.count > r->o->max) return expr_none(r->core->b);
    expr_t rest = after(r, next);
    if (first) return seq2(r->core, text, rest);
    return expr_seq(r->core->b, (expr_t[]){r->core->comma, text, rest}, 3);
}

static expr_t choose(struct order *r, struct spot p, bool first)
{
    struct object *o = r->o;
    struct schema *c = r->core;
    expr_t parts[(1 << OBJECT_WITNESSES_MAX) + 3];
    size_t n = 0;
    bool others = p.at == o->n;
    const struct member *m = others ? NULL : &o->members[p.at];
    bool complete = p.count >= o->min && p.seen + 1 == 1u << o->n_witnesses && !(first && o->not_empty);
    if (others && complete) parts[n++] = expr_empty(c->b);
    if (!others && !m->required) {
        struct spot skip = {p.at + 1, p.count, p.seen};
        parts[n++] = first ? choose(r, skip, true) : after(r, skip);
    }
    for (unsigned set = 1; set < 1u << o->n_witnesses; set++)
        if (!(p.seen & set))
            parts[n++] = then(r, first, others ? o->show[set] : m->show[set], next_spot(r, p, others, set));
    if (!others) parts[n++] = then(r, first, m->text, next_spot(r, p, false, 0));
    /* Others that change nothing are a repetition in front of what follows. */
    if (others && (first || p.count < o->cap)) parts[n++] = then(r, first, o->others, next_spot(r, p, true, 0));
    return c->err ? EXPR_ERROR : expr_alt(c->b, parts, n);
}

static expr_t make_after(struct order *r, struct spot p)
{
    struct schema *c = r->core;
    struct object *o = r->o;
    if (o->cap == 0 && o->n_witnesses == 0 && p.at < o->n) { /* shorter than alternatives */
        expr_t m = seq2(c, c->comma, o->members[p.at].text);
        return seq2(c, expr_repeat(c->b, m, o->members[p.at].required, 1), after(r, next_spot(r, p, false, 0)));
    }
    expr_t out = choose(r, p, false);
    if (p.at < o->n || p.count < o->cap || o->others == expr_none(c->b)) return out;
    return seq2(c, expr_repeat(c->b, seq2(c, c->comma, o->others), 0, EXPR_UNLIMITED), out);
}

static expr_t after(struct order *r, struct spot p)
{
    struct schema *c = r->core;
    if (!schema_step(c)) return EXPR_ERROR;
    expr_t *memo = &r->memo[((p.at * (r->o->cap + 1) + p.count) << r->o->n_witnesses) + p.seen];
    if (*memo != EXPR_ERROR) return *memo;
    expr_t out = make_after(r, p);
    if (c->err || out == EXPR_ERROR) return EXPR_ERROR;
    if (p.at % RULE_EVERY == 0 && r->o->n > RULE_EVERY && out != expr_none(c->b)) {
        expr_t rule = expr_rule(c->b);
        expr_define(c->b, rule, out);
        out = rule;
    }
    return *memo = out;
}

expr_t object_in_order(struct object *o)
{
    struct schema *c = o->core;
    struct order r = {.o = o, .core = c};
    size_t states = ((o->n + 1) * ((size_t)o->cap + 1)) << o->n_witnesses;
    if (o->cap > OBJECT_STATES_MAX || states > OBJECT_STATES_MAX) {
        schema_fail(c, error_say(-E2BIG, "an object with more than %d combinations of place and number of properties",
                                 OBJECT_STATES_MAX));
        return EXPR_ERROR;
    }
    r.memo = schema_alloc(c, states * sizeof(expr_t));
    if (!r.memo) return EXPR_ERROR;
    for (size_t i = 0; i < states; i++) r.memo[i] = EXPR_ERROR;
    return choose(&r, (struct spot){0, 0, 0}, true);
}
