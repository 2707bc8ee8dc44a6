/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/number-range.h"
#include "daemon/text/schema/schema-core.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTED_MAX 2000 /* integers that are written one by one */

struct making {
    struct schema *core;
    const struct shape *shape;
    struct digits digits;
    bool integer;
};

static expr_t seq2(struct schema *c, expr_t x, expr_t y)
{
    return expr_seq(c->b, (expr_t[]){x, y}, 2);
}

static expr_t alt2(struct schema *c, expr_t x, expr_t y)
{
    return expr_alt(c->b, (expr_t[]){x, y}, 2);
}

static bool is_zero(const struct limit *l)
{
    return l->value && l->value->n == 0;
}

/* -1, 0, 1: the sign of the limit; @none without one. */
static int sign(const struct limit *l, int none)
{
    return !l->value ? none : l->value->n == 0 ? 0 : l->value->negative ? -1 : 1;
}

/* What may stand after the sign: from @near to @far, both limits of the size. */
static expr_t between(struct making *m, const struct limit *near, const struct limit *far)
{
    struct schema *c = m->core;
    struct digits *d = &m->digits;
    expr_t all = m->integer ? d->whole : seq2(c, d->whole, d->part);
    if (near->value) {
        expr_t e = digits_from(d, near->value, near->exclusive, m->integer);
        all = e == EXPR_ERROR ? e : expr_and(c->b, all, e);
    }
    if (far->value && all != EXPR_ERROR) {
        expr_t e = digits_to(d, far->value, far->exclusive, m->integer);
        all = e == EXPR_ERROR ? e : expr_and(c->b, all, e);
    }
    return all;
}

/* Numbers without exponent between the limits, as sizes with and without a minus. A negative number is never -0. */
static bool sides(struct making *m, expr_t *positive, expr_t *negative)
{
    const struct limit *lo = &m->shape->lo, *hi = &m->shape->hi, none = {0};
    static const struct decimal zero = {.digits = ""};
    const struct limit over_zero = {&zero, true};
    int from = sign(lo, -2), to = sign(hi, 2);
    expr_t nothing = expr_none(m->core->b);
    *positive = *negative = nothing;
    if (to > 0 || (to == 0 && !hi->exclusive)) *positive = between(m, from >= 0 ? lo : &none, to == 2 ? &none : hi);
    if (from < 0) *negative = between(m, to < 0 ? hi : &over_zero, from == -2 ? &none : lo);
    if (*positive != EXPR_ERROR && *negative != EXPR_ERROR) return true;
    if (!m->core->err)
        schema_refuse(m->core, m->core->root, "a limit of a number with more than %d digits", DECIMAL_DIGITS_MAX);
    return false;
}

/* The least common multiple of the factors if all are small integers that must divide; 0 otherwise. */
static uint64_t common_multiple(const struct shape *s)
{
    uint64_t all = 1;
    for (const struct factor *f = s->factors; f; f = f->next) {
        char w[DECIMAL_DIGITS_MAX + 1], p[DECIMAL_DIGITS_MAX + 1];
        if (f->negated || !decimal_is_integer(f->value) || !decimal_plain(f->value, w, p) || strlen(w) > 9) return 0;
        uint64_t x = strtoul(w, NULL, 10), a = all, b = x;
        while (b) {
            uint64_t t = a % b;
            a = b;
            b = t;
        }
        all = all / a * x;
        if (all > 1000000) return 0;
    }
    return all;
}

static bool limits_a_side_only(const struct shape *s)
{
    return sign(&s->lo, 0) == 0 && sign(&s->hi, 0) == 0 && !s->excluded && s->types & TYPE_INTEGER;
}

/* The sides without the multiples that must not be, and with those that must. */
static bool apply_factors(struct making *m, expr_t *positive, expr_t *negative)
{
    struct schema *c = m->core;
    char text[24];
    struct decimal common;
    uint64_t all = m->shape->factors && m->shape->factors->next ? common_multiple(m->shape) : 0;
    struct factor one = {.value = &common};
    bool zero = !m->shape->lo.exclusive && !m->shape->hi.exclusive; /* of a side, if the limits only choose one */
    if (all && decimal_parse(&c->arena, text, (size_t)snprintf(text, sizeof(text), "%lu", all), &common) < 0) all = 0;
    for (const struct factor *f = all ? &one : m->shape->factors; f; f = f->next) {
        expr_t e = digits_multiple(&m->digits, f->value, m->integer, zero);
        bool alone = !f->next && (f == &one || f == m->shape->factors) && !f->negated && limits_a_side_only(m->shape);
        if (e == EXPR_ERROR || (!expr_is_regular(c->b, e) && !alone)) {
            if (!c->err) schema_refuse(c, m->shape->factors->at, "beside other limits, or of this size");
            return false;
        }
        if (!expr_is_regular(c->b, e)) { /* all of them; a side that is empty, or only 0, stays so */
            *positive = *positive == expr_none(c->b) || m->shape->hi.value ? *positive : e;
            *negative = *negative == expr_none(c->b) ? *negative : e;
            return true;
        }
        if (f->negated) e = expr_not(c->b, e);
        *positive = expr_and(c->b, *positive, e);
        *negative = expr_and(c->b, *negative, e);
    }
    return true;
}

static bool without_excluded(struct making *m, expr_t *positive, expr_t *negative)
{
    struct schema *c = m->core;
    for (const struct value_set *x = m->shape->excluded; x; x = x->next) {
        uint32_t n = x->single ? 1 : x->values->count;
        for (uint32_t i = 0; i < n && schema_step(c); i++) {
            const struct tree *v = x->single ? x->values : x->values->child[i];
            struct decimal v10;
            if (v->kind != TREE_NUMBER) continue;
            if (decimal_parse(&c->arena, v->text, v->count, &v10) < 0) return false;
            expr_t e = digits_equal(&m->digits, &v10);
            if (e == EXPR_ERROR) continue; /* longer than any number between limits is written: not reached */
            expr_t *side = v10.negative ? negative : positive;
            *side = expr_and(c->b, *side, expr_not(c->b, e));
        }
    }
    return !c->err;
}

/* The exponent that a number may have whose limits ask at most for its sign. */
static expr_t exponent(struct making *m)
{
    struct schema *c = m->core;
    struct digits *d = &m->digits;
    expr_t sign_of = alt2(c, expr_empty(c->b), alt2(c, expr_bytes(c->b, "+", 1), expr_bytes(c->b, "-", 1)));
    expr_t digits =
        alt2(c, expr_repeat(c->b, d->any, 1, 2), seq2(c, digit_range(d, '0', '2'), expr_repeat(c->b, d->any, 2, 2)));
    expr_t e = alt2(c, expr_bytes(c->b, "e", 1), expr_bytes(c->b, "E", 1));
    return alt2(c, expr_empty(c->b), expr_seq(c->b, (expr_t[]){e, sign_of, digits}, 3));
}

static bool asks_only_for_sign(const struct shape *s)
{
    if (s->factors || s->excluded || (s->types & TYPE_NUMBER) != TYPE_NUMBER) return false;
    return (!s->lo.value || is_zero(&s->lo)) && (!s->hi.value || is_zero(&s->hi));
}

/* A short list of integers, when multipleOf needs one. */
static bool listed(struct making *m, expr_t *out)
{
    struct schema *c = m->core;
    const struct shape *s = m->shape;
    char w[DECIMAL_DIGITS_MAX + 1], p[DECIMAL_DIGITS_MAX + 1];
    if (!m->integer || !s->factors || !s->lo.value || !s->hi.value) return false;
    if (decimal_size(s->lo.value) > 9 || decimal_size(s->hi.value) > 9) return false;
    long edge[2];
    for (int i = 0; i < 2; i++) {
        const struct decimal *v = i ? s->hi.value : s->lo.value;
        if (!decimal_plain(v, w, p)) return false;
        edge[i] = strtol(w, NULL, 10) * (v->negative ? -1 : 1) + (v->negative ? -1 : 0) * (i == 0 && *p) +
                  (i == 1 && *p && !v->negative);
    }
    if (edge[1] - edge[0] > LISTED_MAX) return false;
    *out = expr_none(c->b);
    struct shape plain = *s;
    plain.allowed = NULL;
    for (long x = edge[0]; x <= edge[1] && schema_step(c); x++) {
        char text[24];
        struct tree v = {.kind = TREE_NUMBER, .text = text};
        v.count = (uint32_t)snprintf(text, sizeof(text), "%ld", x);
        if (shape_admits(c, &plain, &v)) *out = alt2(c, *out, expr_bytes(c->b, text, v.count));
    }
    return true;
}

expr_t compile_number(struct schema *c, const struct shape *s)
{
    struct making m = {.core = c, .shape = s, .integer = (s->types & TYPE_NUMBER) == TYPE_INTEGER};
    expr_t positive, negative, out;
    digits_init(&m.digits, c->b);
    if (listed(&m, &out)) return out;
    if (!sides(&m, &positive, &negative) || !apply_factors(&m, &positive, &negative) ||
        !without_excluded(&m, &positive, &negative))
        return EXPR_ERROR;
    if (!(s->types & TYPE_INTEGER)) {
        struct digits *d = &m.digits;
        expr_t nonzero = expr_seq(
            c->b, (expr_t[]){d->whole, expr_bytes(c->b, ".", 1), d->some, digit_range(d, '1', '9'), d->some}, 5);
        positive = expr_and(c->b, positive, nonzero);
        negative = expr_and(c->b, negative, nonzero);
    }
    if (asks_only_for_sign(s)) {
        expr_t exp = exponent(&m);
        if (!s->lo.value && !s->hi.value) negative = positive; /* -0 too */
        positive = seq2(c, positive, exp);
        negative = seq2(c, negative, exp);
    }
    return alt2(c, positive, seq2(c, expr_bytes(c->b, "-", 1), negative));
}
