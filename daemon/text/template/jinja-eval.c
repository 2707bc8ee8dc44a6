/* SPDX-License-Identifier: MIT */
/* Expressions. */
#include "daemon/text/template/jinja-eval.h"

static int eval_const(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    *out = n->value;
    return 0;
}

static int function_value(struct jj *j, const struct jj_builtin *b, struct jj_value self, struct jj_value *out)
{
    struct jj_func *fn = jj_alloc(j, sizeof(*fn));
    if (!fn) return j->err;
    fn->builtin = b;
    fn->self = self;
    *out = (struct jj_value){.type = JJ_FUNC, .fn = fn};
    return 0;
}

static int eval_name(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    uint64_t passed = 0;
    for (; s; s = s->parent, passed++) {
        for (const struct jj_var *v = s->vars; v; v = v->next, passed++) {
            if (!jj_str_eq(v->name, n->name)) continue;
            *out = v->v;
            return jj_charge_names(j, passed, n->name);
        }
    }
    int r = jj_charge_names(j, passed, n->name);
    if (r == 0) r = jj_dict_get_str(j, j->vars, n->name, out);
    if (r) return r < 0 ? r : 0;
    const struct jj_builtin *b = jj_find_global(n->name);
    return b ? function_value(j, b, jj_none(), out) : jj_undefined_name(j, n->name, out);
}

static int eval_items(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_seq *q = jj_seq_new(j, n->kind == JJ_N_TUPLE ? JJ_TUPLE : JJ_LIST, n->n);
    if (!q) return j->err;
    for (const struct jj_node *i = n->list; i; i = i->next) {
        struct jj_value v;
        int r = jj_eval(j, s, i, &v);
        if (r == 0) r = jj_seq_push(j, q, v);
        if (r < 0) return r;
    }
    *out = jj_sequence(q);
    return 0;
}

static int eval_dict(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_dict *d = jj_dict_new(j);
    if (!d) return j->err;
    for (const struct jj_node *i = n->list; i; i = i->next) {
        struct jj_value k, v;
        int r = jj_eval(j, s, i->a, &k);
        if (r == 0) r = jj_eval(j, s, i->b, &v);
        if (r == 0) r = jj_dict_set(j, d, k, v);
        if (r < 0) return r;
    }
    *out = jj_mapping(d);
    return 0;
}

static int eval_unary(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_value a;
    int r = jj_eval(j, s, n->a, &a);
    j->line = n->line;
    return r < 0 ? r : jj_unary(j, n->op, a, out);
}

static int eval_binary(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_value a, b;
    int r = jj_eval(j, s, n->a, &a);
    if (r == 0) r = jj_eval(j, s, n->b, &b);
    j->line = n->line;
    return r < 0 ? r : jj_binary(j, n->op, a, b, out);
}

static int eval_concat(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    const struct jj_str *all = NULL;
    for (const struct jj_node *i = n->list; i; i = i->next) {
        struct jj_value v;
        int r = jj_eval(j, s, i, &v);
        if (r < 0) return r;
        const struct jj_str *one = jj_to_str(j, v);
        if (one && j->autoescape) one = jj_str_escape(j, one);
        if (!one) return j->err;
        all = all ? jj_str_concat(j, all, one) : one;
        if (!all) return j->err;
    }
    all = jj_str_safe(j, all, j->autoescape);
    if (!all) return j->err;
    *out = jj_string(all);
    return 0;
}

static int eval_and(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    int r = jj_eval(j, s, n->a, out);
    return r < 0 || !jj_truth(*out) ? r : jj_eval(j, s, n->b, out);
}

static int eval_or(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    int r = jj_eval(j, s, n->a, out);
    return r < 0 || jj_truth(*out) ? r : jj_eval(j, s, n->b, out);
}

static int eval_not(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_value a;
    int r = jj_eval(j, s, n->a, &a);
    *out = jj_bool(r == 0 && !jj_truth(a));
    return r;
}

static int compare_one(struct jj *j, enum jj_op op, struct jj_value a, struct jj_value b, bool *out)
{
    int order, r;
    switch (op) {
    case JJ_OP_EQ:
    case JJ_OP_NE:
        r = jj_equal(j, a, b, out);
        if (op == JJ_OP_NE) *out = !*out;
        return r;
    case JJ_OP_IN:
    case JJ_OP_NOTIN:
        r = jj_contains(j, b, a, out);
        if (op == JJ_OP_NOTIN) *out = !*out;
        return r;
    default:
        r = jj_compare(j, jj_op_text(op), a, b, &order);
        if (r < 0) return r;
        *out = order != 2 && (op == JJ_OP_LT   ? order < 0
                              : op == JJ_OP_LE ? order <= 0
                              : op == JJ_OP_GT ? order > 0
                                               : order >= 0);
        return 0;
    }
}

static int eval_compare(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_value a, b;
    bool is = true;
    int r = jj_eval(j, s, n->a, &a);
    for (const struct jj_node *o = n->list; r == 0 && is && o; o = o->next) {
        r = jj_eval(j, s, o->a, &b);
        j->line = n->line;
        if (r == 0) r = compare_one(j, o->op, a, b, &is);
        a = b;
    }
    *out = jj_bool(is);
    return r;
}

static int eval_cond(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_value test;
    int r = jj_eval(j, s, n->b, &test);
    if (r < 0) return r;
    if (jj_truth(test)) return jj_eval(j, s, n->a, out);
    if (n->c) return jj_eval(j, s, n->c, out);
    return jj_undefined(j, "the condition of an inline if is false and it has no else", out);
}

static int eval_attr(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_value a;
    int r = jj_eval(j, s, n->a, &a);
    j->line = n->line;
    if (r < 0) return r;
    return n->value.type == JJ_STR ? jj_get_attr(j, a, n->value, out) : jj_get_item(j, a, n->value, out);
}

static int eval_slice_part(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    *out = jj_none();
    return n ? jj_eval(j, s, n, out) : 0;
}

static int eval_item(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_value a, key, part[3];
    int r = jj_eval(j, s, n->a, &a);
    if (r == 0 && n->b->kind == JJ_N_SLICE) {
        r = eval_slice_part(j, s, n->b->a, &part[0]);
        if (r == 0) r = eval_slice_part(j, s, n->b->b, &part[1]);
        if (r == 0) r = eval_slice_part(j, s, n->b->c, &part[2]);
        j->line = n->line;
        return r < 0 ? r : jj_get_slice(j, a, part, out);
    }
    if (r == 0) r = jj_eval(j, s, n->b, &key);
    j->line = n->line;
    return r < 0 ? r : jj_get_item(j, a, key, out);
}

/* A slice with other subscripts. No value supports it. */
static int eval_slice(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    return jj_error(j, "a slice cannot be combined with other subscripts");
}

static int eval_call(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_value callee;
    struct jj_args args;
    int r = jj_eval(j, s, n->a, &callee);
    if (r == 0) r = jj_eval_args(j, s, n, &args);
    j->line = n->line;
    return r < 0 ? r : jj_call_value(j, callee, &args, out);
}

static int eval_filter(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_value a;
    struct jj_args args;
    int r = jj_eval(j, s, n->a, &a);
    if (r == 0) r = jj_eval_args(j, s, n, &args);
    j->line = n->line;
    if (r < 0) return r;
    if (!n->fn)
        return jj_error(j, "no %s named '%.*s'", n->kind == JJ_N_TEST ? "test" : "filter",
                        n->name->len > 100 ? 100 : (int)n->name->len, n->name->p);
    return jj_call_builtin(j, n->fn, a, &args, out);
}

typedef int (*eval_fn)(struct jj *, struct jj_scope *, const struct jj_node *, struct jj_value *);

static const eval_fn evaluators[JJ_N_KINDS] = {
    [JJ_N_CONST] = eval_const, [JJ_N_NAME] = eval_name,     [JJ_N_TUPLE] = eval_items,   [JJ_N_LIST] = eval_items,
    [JJ_N_DICT] = eval_dict,   [JJ_N_UNARY] = eval_unary,   [JJ_N_BINARY] = eval_binary, [JJ_N_CONCAT] = eval_concat,
    [JJ_N_AND] = eval_and,     [JJ_N_OR] = eval_or,         [JJ_N_NOT] = eval_not,       [JJ_N_COMPARE] = eval_compare,
    [JJ_N_COND] = eval_cond,   [JJ_N_ATTR] = eval_attr,     [JJ_N_ITEM] = eval_item,     [JJ_N_SLICE] = eval_slice,
    [JJ_N_CALL] = eval_call,   [JJ_N_FILTER] = eval_filter, [JJ_N_TEST] = eval_filter,
};

int jj_eval(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    int r = jj_enter(j);
    if (r < 0) return r;
    j->line = n->line;
    r = evaluators[n->kind](j, s, n, out);
    jj_leave(j);
    return r;
}

static int add_kwarg(struct jj *j, struct jj_kwarg **kw, size_t *n, size_t *cap, struct jj_kwarg add)
{
    if (jj_charge_names(j, *n, add.name) < 0) return j->err;
    for (size_t i = 0; i < *n; i++)
        if (jj_str_eq((*kw)[i].name, add.name))
            return jj_error(j, "got multiple values for keyword argument '%.*s'",
                            add.name->len > 100 ? 100 : (int)add.name->len, add.name->p);
    if (*n == *cap) {
        size_t more = *cap ? *cap * 2 : 4;
        struct jj_kwarg *v = jj_alloc_n(j, more, sizeof(*v));
        if (!v) return j->err;
        if (*n) memcpy(v, *kw, *n * sizeof(*v));
        *kw = v;
        *cap = more;
    }
    (*kw)[(*n)++] = add;
    return 0;
}

static int splat_dict(struct jj *j, struct jj_value v, struct jj_kwarg **kw, size_t *n, size_t *cap)
{
    int r = jj_check_defined(j, v);
    if (r < 0) return r;
    if (v.type != JJ_DICT) return jj_error(j, "argument after ** must be a mapping, not %s", jj_type_name(v));
    for (size_t i = 0; i < v.d->n && r == 0; i++) {
        if (v.d->e[i].k.type != JJ_STR) return jj_error(j, "keywords must be strings");
        r = jj_charge(j, 1);
        if (r == 0) r = add_kwarg(j, kw, n, cap, (struct jj_kwarg){v.d->e[i].k.s, v.d->e[i].v});
    }
    return r;
}

int jj_eval_args(struct jj *j, struct jj_scope *s, const struct jj_node *call, struct jj_args *out)
{
    *out = (struct jj_args){0};
    if (!call->list) return 0;
    struct jj_seq *pos = jj_seq_new(j, JJ_LIST, call->n);
    struct jj_kwarg *kw = NULL;
    size_t n_kw = 0, cap = 0;
    int r = pos ? 0 : j->err;
    for (const struct jj_node *i = call->list; i && r == 0; i = i->next) {
        struct jj_value v;
        r = jj_eval(j, s, i->a, &v);
        if (r < 0) return r;
        if (i->kind == JJ_N_ARG) {
            r = jj_seq_push(j, pos, v);
        } else if (i->kind == JJ_N_KWARG) {
            r = add_kwarg(j, &kw, &n_kw, &cap, (struct jj_kwarg){i->name, v});
        } else if (i->kind == JJ_N_STARSTAR) {
            r = splat_dict(j, v, &kw, &n_kw, &cap);
        } else {
            const struct jj_seq *q = jj_iterate(j, v);
            if (!q) return j->err;
            for (size_t k = 0; k < q->n && r == 0; k++) r = jj_seq_push(j, pos, q->v[k]);
        }
    }
    if (r == 0) *out = (struct jj_args){pos->v, pos->n, kw, n_kw};
    return r;
}
