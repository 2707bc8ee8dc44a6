/* SPDX-License-Identifier: MIT */
/* The operators ==, < and in. */
#include "daemon/text/template/jinja-str.h"
#include "daemon/text/template/jinja-value.h"
#include <math.h>

static int equal_seq(struct jj *j, const struct jj_seq *a, const struct jj_seq *b, bool *out)
{
    bool tuples = (a->kind == JJ_TUPLE || a->kind == JJ_GROUP) && (b->kind == JJ_TUPLE || b->kind == JJ_GROUP);
    bool keys = a->kind == JJ_KEYS && b->kind == JJ_KEYS;
    *out = a == b;
    if (*out || (a->kind != b->kind && !tuples) || a->n != b->n) return 0;
    if (a->kind == JJ_GENERATOR || (a->kind > JJ_RANGE && !keys)) return 0;
    *out = true;
    for (size_t i = 0; i < a->n && *out; i++) {
        int r = jj_equal(j, a->v[i], b->v[i], out);
        if (r < 0) return r;
    }
    return 0;
}

static int equal_dict(struct jj *j, const struct jj_dict *a, const struct jj_dict *b, bool *out)
{
    *out = a == b;
    if (*out || a->n != b->n) return 0;
    for (size_t i = 0; i < a->n; i++) {
        struct jj_value other;
        int r = jj_dict_get(j, b, a->e[i].k, &other);
        if (r <= 0) return r;
        r = jj_equal(j, a->e[i].v, other, out);
        if (r < 0 || !*out) return r;
    }
    *out = true;
    return 0;
}

static bool equal_numbers(struct jj_value a, struct jj_value b)
{
    if (jj_is_integral(a) && jj_is_integral(b)) return jj_integral(a) == jj_integral(b);
    long double x = a.type == JJ_FLOAT ? (long double)a.f : (long double)jj_integral(a);
    long double y = b.type == JJ_FLOAT ? (long double)b.f : (long double)jj_integral(b);
    return x == y;
}

int jj_equal(struct jj *j, struct jj_value a, struct jj_value b, bool *out)
{
    *out = false;
    int r = jj_enter(j);
    if (r < 0) return r;
    if (jj_is_number(a) && jj_is_number(b)) {
        *out = equal_numbers(a, b);
    } else if (a.type != b.type) {
        *out = false;
    } else if (a.type == JJ_STR) {
        r = jj_charge_bytes(j, a.s->len);
        *out = jj_str_eq(a.s, b.s);
    } else if (a.type == JJ_SEQ) {
        r = equal_seq(j, a.q, b.q, out);
    } else if (a.type == JJ_DICT) {
        r = equal_dict(j, a.d, b.d, out);
    } else {
        *out = a.type == JJ_NONE || a.type == JJ_UNDEFINED || (const void *)a.d == (const void *)b.d;
    }
    jj_leave(j);
    return r;
}

static int compare_numbers(struct jj_value a, struct jj_value b)
{
    if (jj_is_integral(a) && jj_is_integral(b))
        return jj_integral(a) < jj_integral(b) ? -1 : jj_integral(a) > jj_integral(b);
    long double x = a.type == JJ_FLOAT ? (long double)a.f : (long double)jj_integral(a);
    long double y = b.type == JJ_FLOAT ? (long double)b.f : (long double)jj_integral(b);
    return isunordered(x, y) ? 2 : x < y ? -1 : x > y;
}

static int compare_seq(struct jj *j, const char *op, const struct jj_seq *a, const struct jj_seq *b, int *out)
{
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        bool eq;
        int r = jj_equal(j, a->v[i], b->v[i], &eq);
        if (r < 0) return r;
        if (!eq) return jj_compare(j, op, a->v[i], b->v[i], out);
    }
    *out = a->n < b->n ? -1 : a->n > b->n;
    return 0;
}

int jj_compare(struct jj *j, const char *op, struct jj_value a, struct jj_value b, int *out)
{
    int r = jj_check_defined(j, a);
    if (r == 0) r = jj_check_defined(j, b);
    if (r == 0) r = jj_enter(j);
    if (r < 0) return r;
    if (jj_is_number(a) && jj_is_number(b)) {
        *out = compare_numbers(a, b);
    } else if (a.type == JJ_STR && b.type == JJ_STR) {
        *out = jj_str_cmp(a.s, b.s);
        r = jj_charge_bytes(j, a.s->len);
    } else if ((jj_is_list(a) && jj_is_list(b)) || (jj_is_tuple(a) && jj_is_tuple(b))) {
        r = compare_seq(j, op, a.q, b.q, out);
    } else {
        r = jj_error(j, "'%s' not supported between instances of '%s' and '%s'", op, jj_type_name(a), jj_type_name(b));
    }
    jj_leave(j);
    return r;
}

int jj_contains(struct jj *j, struct jj_value of, struct jj_value x, bool *out)
{
    struct jj_value ignored;
    *out = false;
    if (of.type == JJ_STR) {
        if (x.type == JJ_UNDEFINED) return jj_fail_undefined(j, x);
        if (x.type != JJ_STR)
            return jj_error(j, "'in <string>' requires string as left operand, not %s", jj_type_name(x));
        *out = !x.s->len || memmem(of.s->p, of.s->len, x.s->p, x.s->len);
        return jj_charge_bytes(j, of.s->len);
    }
    if (of.type == JJ_DICT) {
        int r = jj_dict_get(j, of.d, x, &ignored);
        *out = r > 0;
        return r < 0 ? r : 0;
    }
    if (of.type != JJ_SEQ && of.type != JJ_UNDEFINED && of.type != JJ_LOOP)
        return jj_error(j, "argument of type '%s' is not iterable", jj_type_name(of));
    struct jj_seq *q = jj_iterate(j, of);
    if (!q) return j->err;
    for (size_t i = 0; i < q->n && !*out; i++) {
        int r = jj_equal(j, q->v[i], x, out);
        if (r < 0) return r;
    }
    return 0;
}
