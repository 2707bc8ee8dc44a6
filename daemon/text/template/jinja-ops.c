/* SPDX-License-Identifier: MIT */
/* Arithmetic and the other operators on two values, as Python defines them. Integers have 64 bits; a larger result is
 * an error. */
#include "daemon/text/template/jinja-eval.h"
#include <math.h>

static int bad_operands(struct jj *j, enum jj_op op, struct jj_value a, struct jj_value b)
{
    int r = jj_check_defined(j, a);
    if (r == 0) r = jj_check_defined(j, b);
    if (r < 0) return r;
    if (op == JJ_OP_ADD && a.type == JJ_STR)
        return jj_error(j, "can only concatenate str (not \"%s\") to str", jj_type_name(b));
    if (op == JJ_OP_ADD && jj_is_list(a))
        return jj_error(j, "can only concatenate list (not \"%s\") to list", jj_type_name(b));
    return jj_error(j, "unsupported operand type(s) for %s: '%s' and '%s'", jj_op_text(op), jj_type_name(a),
                    jj_type_name(b));
}

static int overflow(struct jj *j)
{
    return jj_error(j, "an integer that does not fit into 64 bits");
}

static int int_div(struct jj *j, enum jj_op op, int64_t a, int64_t b, int64_t *out)
{
    if (!b) return jj_error(j, "integer division or modulo by zero");
    if (b == -1) {
        if (op == JJ_OP_MOD) {
            *out = 0;
            return 0;
        }
        return __builtin_sub_overflow((int64_t)0, a, out) ? overflow(j) : 0;
    }
    int64_t q = a / b, r = a % b;
    if (r && (r < 0) != (b < 0)) {
        q--;
        r += b;
    }
    *out = op == JJ_OP_MOD ? r : q;
    return 0;
}

static int int_pow(struct jj *j, int64_t base, int64_t exp, struct jj_value *out)
{
    if (exp < 0) {
        if (!base) return jj_error(j, "0.0 cannot be raised to a negative power");
        *out = jj_float(pow((double)base, (double)exp));
        return 0;
    }
    int64_t v = 1;
    for (; exp; exp >>= 1) {
        if (exp & 1 && __builtin_mul_overflow(v, base, &v)) return overflow(j);
        if (exp > 1 && __builtin_mul_overflow(base, base, &base)) return overflow(j);
    }
    *out = jj_int(v);
    return 0;
}

static int int_op(struct jj *j, enum jj_op op, int64_t a, int64_t b, struct jj_value *out)
{
    int64_t v = 0;
    int r = 0;
    switch (op) {
    case JJ_OP_ADD:
        if (__builtin_add_overflow(a, b, &v)) return overflow(j);
        break;
    case JJ_OP_SUB:
        if (__builtin_sub_overflow(a, b, &v)) return overflow(j);
        break;
    case JJ_OP_MUL:
        if (__builtin_mul_overflow(a, b, &v)) return overflow(j);
        break;
    case JJ_OP_DIV:
        if (!b) return jj_error(j, "division by zero");
        *out = jj_float((double)((long double)a / (long double)b));
        return 0;
    case JJ_OP_POW:
        return int_pow(j, a, b, out);
    default:
        r = int_div(j, op, a, b, &v);
        break;
    }
    *out = jj_int(v);
    return r;
}

static double float_mod(double a, double b)
{
    double m = fmod(a, b);
    if (m != 0 && (m < 0) != (b < 0)) return m + b;
    return m == 0 ? copysign(0.0, b) : m;
}

static double float_floordiv(double a, double b)
{
    double m = fmod(a, b), q = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign(0.0, a / b);
    double f = floor(q);
    return q - f > 0.5 ? f + 1 : f;
}

static int float_op(struct jj *j, enum jj_op op, double a, double b, struct jj_value *out)
{
    bool divides = op == JJ_OP_DIV || op == JJ_OP_FLOORDIV || op == JJ_OP_MOD;
    if (divides && b == 0)
        return jj_error(j, op == JJ_OP_DIV ? "float division by zero" : "float floor division or modulo by zero");
    double v = op == JJ_OP_ADD        ? a + b
               : op == JJ_OP_SUB      ? a - b
               : op == JJ_OP_MUL      ? a * b
               : op == JJ_OP_DIV      ? a / b
               : op == JJ_OP_FLOORDIV ? float_floordiv(a, b)
               : op == JJ_OP_MOD      ? float_mod(a, b)
                                      : pow(a, b);
    if (op == JJ_OP_POW && a == 0 && b < 0) return jj_error(j, "0.0 cannot be raised to a negative power");
    if (op == JJ_OP_POW && isnan(v) && !isnan(a) && !isnan(b)) return jj_error(j, "the result is a complex number");
    if (op == JJ_OP_POW && isinf(v) && isfinite(a) && isfinite(b)) return jj_error(j, "the result is too large");
    *out = jj_float(v);
    return 0;
}

static int repeat(struct jj *j, struct jj_value a, int64_t n, struct jj_value *out)
{
    if (n < 0) n = 0;
    if (a.type == JJ_STR) {
        struct jj_sb sb = {.j = j};
        int r = jj_charge(j, a.s->len ? (uint64_t)n / 16 : 0);
        if (r == 0) r = jj_sb_fill(&sb, a.s, n);
        if (r == 0) r = jj_sb_finish(&sb, out);
        if (r == 0 && a.s->safe && !(out->s = jj_str_safe(j, out->s, true))) r = j->err;
        return r;
    }
    size_t total;
    if (__builtin_mul_overflow(a.q->n, (size_t)n, &total)) return jj_too_much(j, "steps", j->limits.steps);
    int r = jj_charge(j, total);
    if (r < 0) return r;
    struct jj_seq *q = jj_seq_new(j, a.q->kind == JJ_GROUP ? JJ_TUPLE : a.q->kind, total);
    if (!q) return j->err;
    for (size_t i = 0; i < total; i++) q->v[q->n++] = a.q->v[i % a.q->n];
    *out = jj_sequence(q);
    return 0;
}

static int concat_seq(struct jj *j, const struct jj_seq *a, const struct jj_seq *b, struct jj_value *out)
{
    int r = jj_charge(j, a->n + b->n);
    struct jj_seq *q = r < 0 ? NULL : jj_seq_new(j, a->kind == JJ_GROUP ? JJ_TUPLE : a->kind, a->n + b->n);
    if (!q) return j->err;
    if (a->n) memcpy(q->v, a->v, a->n * sizeof(*q->v));
    if (b->n) memcpy(q->v + a->n, b->v, b->n * sizeof(*q->v));
    q->n = a->n + b->n;
    *out = jj_sequence(q);
    return 0;
}

/* Markup escapes the string that is added to it. */
static int concat_str(struct jj *j, const struct jj_str *a, const struct jj_str *b, struct jj_value *out)
{
    bool safe = a->safe || b->safe;
    if (safe) {
        a = jj_str_escape(j, a);
        b = a ? jj_str_escape(j, b) : NULL;
        if (!b) return j->err;
    }
    const struct jj_str *s = jj_str_concat(j, a, b);
    if (s) s = jj_str_safe(j, s, safe);
    if (!s) return j->err;
    *out = jj_string(s);
    return 0;
}

static bool repeats(struct jj_value v)
{
    return v.type == JJ_STR || jj_is_list(v) || jj_is_tuple(v);
}

int jj_binary(struct jj *j, enum jj_op op, struct jj_value a, struct jj_value b, struct jj_value *out)
{
    int r;
    if (jj_is_number(a) && jj_is_number(b)) {
        bool data = a.data || b.data;
        if (jj_is_integral(a) && jj_is_integral(b))
            r = int_op(j, op, jj_integral(a), jj_integral(b), out);
        else
            r = float_op(j, op, jj_real(a), jj_real(b), out);
        out->data = data;
        return r;
    }
    if (op == JJ_OP_ADD && a.type == JJ_STR && b.type == JJ_STR) return concat_str(j, a.s, b.s, out);
    if (op == JJ_OP_ADD && ((jj_is_list(a) && jj_is_list(b)) || (jj_is_tuple(a) && jj_is_tuple(b))))
        return concat_seq(j, a.q, b.q, out);
    if (op == JJ_OP_MUL && repeats(a) && jj_is_integral(b)) return repeat(j, a, jj_integral(b), out);
    if (op == JJ_OP_MUL && repeats(b) && jj_is_integral(a)) return repeat(j, b, jj_integral(a), out);
    if (op == JJ_OP_MOD && a.type == JJ_STR) return jj_percent(j, a.s, b, out);
    return bad_operands(j, op, a, b);
}

int jj_unary(struct jj *j, enum jj_op op, struct jj_value a, struct jj_value *out)
{
    int r = jj_check_defined(j, a);
    if (r < 0) return r;
    if (!jj_is_number(a)) return jj_error(j, "bad operand type for unary %s: '%s'", jj_op_text(op), jj_type_name(a));
    *out = a;
    if (a.type == JJ_FLOAT) {
        if (op == JJ_OP_SUB) out->f = -a.f;
        return 0;
    }
    out->type = JJ_INT;
    out->i = jj_integral(a);
    if (op == JJ_OP_SUB && __builtin_sub_overflow((int64_t)0, out->i, &out->i)) return overflow(j);
    return 0;
}
