/* SPDX-License-Identifier: MIT */
/* The tests of "is". */
#include "daemon/text/template/jinja-eval.h"
#include "daemon/text/template/jinja-unicode.h"

static int yes(struct jj_value *out, bool b)
{
    *out = jj_bool(b);
    return 0;
}

#define TYPE_TEST(name, condition)                                                                                     \
    static int name(struct jj *j, const struct jj_call *c, struct jj_value *out)                                       \
    {                                                                                                                  \
        struct jj_value v = c->self;                                                                                   \
        return yes(out, condition);                                                                                    \
    }
TYPE_TEST(t_defined, v.type != JJ_UNDEFINED)
TYPE_TEST(t_undefined, v.type == JJ_UNDEFINED)
TYPE_TEST(t_none, v.type == JJ_NONE)
TYPE_TEST(t_boolean, v.type == JJ_BOOL)
TYPE_TEST(t_true, v.type == JJ_BOOL && v.b)
TYPE_TEST(t_false, v.type == JJ_BOOL && !v.b)
TYPE_TEST(t_integer, v.type == JJ_INT)
TYPE_TEST(t_float, v.type == JJ_FLOAT)
TYPE_TEST(t_number, jj_is_number(v))
TYPE_TEST(t_string, v.type == JJ_STR)
TYPE_TEST(t_mapping, v.type == JJ_DICT)
TYPE_TEST(t_iterable,
          v.type == JJ_STR || v.type == JJ_SEQ || v.type == JJ_DICT || v.type == JJ_UNDEFINED || v.type == JJ_LOOP)
TYPE_TEST(t_sequence, v.type == JJ_STR || v.type == JJ_DICT || v.type == JJ_UNDEFINED ||
                          (v.type == JJ_SEQ && v.q->kind <= JJ_RANGE))
TYPE_TEST(t_callable, v.type == JJ_FUNC || v.type == JJ_JOINER || v.type == JJ_LOOP || v.type == JJ_UNDEFINED)
TYPE_TEST(t_escaped, v.type == JJ_STR && v.s->safe)

static int modulo(struct jj *j, struct jj_value v, int64_t by, int64_t want, struct jj_value *out)
{
    struct jj_value m;
    bool eq = false;
    int r = jj_check_defined(j, v);
    if (r == 0) r = jj_binary(j, JJ_OP_MOD, v, jj_int(by), &m);
    if (r == 0) r = jj_equal(j, m, jj_int(want), &eq);
    return r < 0 ? r : yes(out, eq);
}

static int t_even(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return modulo(j, c->self, 2, 0, out);
}

static int t_odd(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return modulo(j, c->self, 2, 1, out);
}

static int t_divisibleby(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_value m;
    bool eq = false;
    int r = jj_check_defined(j, c->self);
    if (r == 0) r = jj_binary(j, JJ_OP_MOD, c->self, c->a[0], &m);
    if (r == 0) r = jj_equal(j, m, jj_int(0), &eq);
    return r < 0 ? r : yes(out, eq);
}

static int t_eq(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool eq = false;
    int r = jj_equal(j, c->self, c->a[0], &eq);
    return r < 0 ? r : yes(out, eq);
}

static int t_ne(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int r = t_eq(j, c, out);
    out->b = !out->b;
    return r;
}

static int order(struct jj *j, const struct jj_call *c, const char *op, bool want_less, bool or_equal,
                 struct jj_value *out)
{
    int o = 2, r = jj_compare(j, op, c->self, c->a[0], &o);
    return r < 0 ? r : yes(out, o != 2 && (o == 0 ? or_equal : want_less ? o < 0 : o > 0));
}

static int t_lt(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return order(j, c, "<", true, false, out);
}

static int t_le(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return order(j, c, "<=", true, true, out);
}

static int t_gt(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return order(j, c, ">", false, false, out);
}

static int t_ge(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return order(j, c, ">=", false, true, out);
}

static int t_in(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool in = false;
    int r = jj_contains(j, c->a[0], c->self, &in);
    return r < 0 ? r : yes(out, in);
}

static int t_sameas(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_value a = c->self, b = c->a[0];
    if (a.type != b.type) return yes(out, false);
    if (a.type == JJ_NONE || a.type == JJ_BOOL || a.type == JJ_INT)
        return yes(out, a.type == JJ_NONE || jj_integral(a) == jj_integral(b));
    if (a.type == JJ_STR) return yes(out, jj_str_eq(a.s, b.s));
    return yes(out, (const void *)a.d == (const void *)b.d);
}

static int t_case(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool upper = c->name[0] == 'u', any = false;
    const struct jj_str *s = jj_to_str(j, c->self);
    if (!s) return j->err;
    for (size_t i = 0; i < s->len;) {
        uint32_t ch;
        i += jj_char(s->p + i, &ch);
        if (!jj_is_cased(ch)) continue;
        any = true;
        if (upper ? !jj_is_upper(ch) : !jj_is_lower(ch)) return yes(out, false);
    }
    return yes(out, any);
}

static int t_filter(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return yes(out, c->self.type == JJ_STR && j->upper->find_filter(c->self.s));
}

static int t_test(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return yes(out, c->self.type == JJ_STR && j->upper->find_test(c->self.s));
}

static const struct jj_builtin tests[] = {
    {"defined", t_defined, "", 0},
    {"undefined", t_undefined, "", 0},
    {"none", t_none, "", 0},
    {"boolean", t_boolean, "", 0},
    {"true", t_true, "", 0},
    {"false", t_false, "", 0},
    {"integer", t_integer, "", 0},
    {"float", t_float, "", 0},
    {"number", t_number, "", 0},
    {"string", t_string, "", 0},
    {"mapping", t_mapping, "", 0},
    {"sequence", t_sequence, "", 0},
    {"iterable", t_iterable, "", 0},
    {"callable", t_callable, "", 0},
    {"escaped", t_escaped, "", 0},
    {"even", t_even, "", 0},
    {"odd", t_odd, "", 0},
    {"divisibleby", t_divisibleby, "num", 1},
    {"eq", t_eq, "other", 1},
    {"equalto", t_eq, "other", 1},
    {"==", t_eq, "other", 1},
    {"ne", t_ne, "other", 1},
    {"!=", t_ne, "other", 1},
    {"lt", t_lt, "other", 1},
    {"lessthan", t_lt, "other", 1},
    {"<", t_lt, "other", 1},
    {"le", t_le, "other", 1},
    {"<=", t_le, "other", 1},
    {"gt", t_gt, "other", 1},
    {"greaterthan", t_gt, "other", 1},
    {">", t_gt, "other", 1},
    {"ge", t_ge, "other", 1},
    {">=", t_ge, "other", 1},
    {"in", t_in, "seq", 1},
    {"sameas", t_sameas, "other", 1},
    {"lower", t_case, "", 0},
    {"upper", t_case, "", 0},
    {"filter", t_filter, "", 0},
    {"test", t_test, "", 0},
};

const struct jj_builtin *jj_find_test(const struct jj_str *name)
{
    return JJ_FIND(tests, name);
}
