/* SPDX-License-Identifier: MIT */
/* Calls: builtins, whose arguments are sorted into their places, and macros. */
#include "daemon/text/template/jinja-eval.h"

/* The index of @name in "a b c", or -1. *n is the number of names. */
static int find_param(const char *params, const struct jj_str *name, size_t *n)
{
    int found = -1;
    *n = 0;
    for (const char *p = params; *p;) {
        size_t len = strcspn(p, " ");
        if (name && name->len == len && !memcmp(p, name->p, len)) found = (int)*n;
        ++*n;
        p += len;
        while (*p == ' ') p++;
    }
    return found;
}

static int bind(struct jj *j, const struct jj_builtin *b, const struct jj_args *args, struct jj_call *c)
{
    size_t n;
    find_param(b->params, NULL, &n);
    if (args->n_pos > n)
        return jj_error(j, "%s() takes at most %zu arguments, %zu were given", b->name, n, args->n_pos);
    for (size_t i = 0; i < args->n_pos; i++) c->a[i] = args->pos[i];
    for (size_t i = 0; i < args->n_kw; i++) {
        const struct jj_str *name = args->kw[i].name;
        int at = find_param(b->params, name, &n), len = name->len > 100 ? 100 : (int)name->len;
        if (at < 0) return jj_error(j, "%s() got an unexpected keyword argument '%.*s'", b->name, len, name->p);
        if (jj_given(c->a[at]))
            return jj_error(j, "%s() got multiple values for argument '%.*s'", b->name, len, name->p);
        c->a[at] = args->kw[i].v;
    }
    for (size_t i = 0; i < b->required; i++)
        if (!jj_given(c->a[i])) return jj_error(j, "%s() needs %u arguments", b->name, b->required);
    return 0;
}

int jj_call_builtin(struct jj *j, const struct jj_builtin *b, struct jj_value self, const struct jj_args *args,
                    struct jj_value *out)
{
    struct jj_call c = {.self = self, .args = args, .name = b->name};
    int r = jj_charge(j, 1);
    if (r == 0 && self.type == JJ_STR) r = jj_charge_bytes(j, self.s->len);
    if (r == 0 && b->params) r = bind(j, b, args, &c);
    return r < 0 ? r : b->fn(j, &c, out);
}

/* Keyword arguments that a macro has not taken yet. */
struct rest {
    const struct jj_args *args;
    bool *used; /* [n_kw] */
};

static bool take(struct rest *rest, const char *name, size_t len, struct jj_value *out)
{
    for (size_t i = 0; i < rest->args->n_kw; i++) {
        const struct jj_kwarg *k = &rest->args->kw[i];
        if (rest->used[i] || k->name->len != len || memcmp(k->name->p, name, len) != 0) continue;
        rest->used[i] = true;
        *out = k->v;
        return true;
    }
    return false;
}

static int set_lit(struct jj *j, struct jj_scope *s, const char *name, struct jj_value v)
{
    const struct jj_str *str = jj_str_lit(j, name);
    return str ? jj_scope_set(j, s, str, v) : j->err;
}

/* Sets caller, kwargs and varargs, if the body uses them. */
static int bind_special(struct jj *j, const struct jj_node *m, struct jj_scope *s, size_t n_params, bool has_caller,
                        struct rest *rest)
{
    const struct jj_args *args = rest->args;
    const char *name = m->name ? m->name->p : "caller";
    int r = 0, len = m->name ? m->name->len > 100 ? 100 : (int)m->name->len : 6;
    if (m->uses & JJ_USES_CALLER && !has_caller) {
        struct jj_value caller;
        if (!take(rest, "caller", 6, &caller)) r = jj_undefined(j, "no caller defined", &caller);
        if (r == 0) r = set_lit(j, s, "caller", caller);
    }
    struct jj_dict *kwargs = r == 0 && m->uses & JJ_USES_KWARGS ? jj_dict_new(j) : NULL;
    if (r == 0 && m->uses & JJ_USES_KWARGS && !kwargs) r = j->err;
    for (size_t i = 0; i < args->n_kw && r == 0; i++) {
        if (rest->used[i]) continue;
        const struct jj_str *k = args->kw[i].name;
        if (!kwargs)
            return jj_error(j, "macro '%.*s' takes no keyword argument '%.*s'", len, name,
                            k->len > 100 ? 100 : (int)k->len, k->p);
        r = jj_dict_set(j, kwargs, jj_string(k), args->kw[i].v);
    }
    if (r == 0 && kwargs) r = set_lit(j, s, "kwargs", jj_mapping(kwargs));
    if (r < 0) return r;

    size_t more = args->n_pos > n_params ? args->n_pos - n_params : 0;
    if (!(m->uses & JJ_USES_VARARGS)) {
        if (more) return jj_error(j, "macro '%.*s' takes not more than %zu argument(s)", len, name, n_params);
        return 0;
    }
    struct jj_seq *varargs = jj_seq_new(j, JJ_TUPLE, more);
    if (!varargs) return j->err;
    for (size_t i = n_params; i < args->n_pos; i++) varargs->v[varargs->n++] = args->pos[i];
    return set_lit(j, s, "varargs", jj_sequence(varargs));
}

/* Sets the parameters to the given arguments or undefined, then the defaults in order. A default may use other
 * parameters. */
static int bind_params(struct jj *j, const struct jj_node *m, struct jj_scope *s, struct rest *rest, size_t *n,
                       bool *has_caller)
{
    int r = 0;
    for (const struct jj_node *p = m->d; p && r == 0; p = p->next, ++*n) {
        struct jj_value v;
        r = jj_charge_names(j, 2 * rest->args->n_kw, p->name); /* here and in was_given() */
        if (r < 0) return r;
        if (*n < rest->args->n_pos)
            v = rest->args->pos[*n];
        else if (!take(rest, p->name->p, p->name->len, &v))
            r = jj_undefined(j, p->a ? "a default refers to its own parameter" : "parameter was not provided", &v);
        *has_caller |= jj_str_is(p->name, "caller");
        if (r == 0) r = jj_scope_set(j, s, p->name, v);
    }
    return r;
}

static bool was_given(const struct jj_args *args, const struct jj_node *param, size_t place)
{
    if (place < args->n_pos) return true;
    for (size_t i = 0; i < args->n_kw; i++)
        if (jj_str_eq(args->kw[i].name, param->name)) return true;
    return false;
}

static int call_macro(struct jj *j, const struct jj_func *fn, const struct jj_args *args, struct jj_value *out)
{
    const struct jj_node *m = fn->macro;
    struct rest rest = {args, jj_alloc(j, args->n_kw + 1)};
    struct jj_scope *s = jj_alloc(j, sizeof(*s));
    if (!s || !rest.used) return j->err;
    s->parent = fn->scope;
    size_t n = 0, place = 0;
    bool has_caller = false;
    int r = bind_params(j, m, s, &rest, &n, &has_caller);
    for (const struct jj_node *p = m->d; p && r == 0; p = p->next, place++) {
        struct jj_value v;
        if (!p->a || was_given(args, p, place)) continue;
        r = jj_eval(j, s, p->a, &v);
        if (r == 0) r = jj_scope_set(j, s, p->name, v);
    }
    if (r == 0) r = bind_special(j, m, s, n, has_caller, &rest);
    return r < 0 ? r : jj_capture(j, s, m->list, out);
}

static int call_joiner(struct jj *j, struct jj_joiner *joiner, struct jj_value *out)
{
    if (joiner->used) {
        *out = joiner->sep;
        return 0;
    }
    joiner->used = true;
    const struct jj_str *empty = jj_str_lit(j, "");
    *out = jj_string(empty);
    return empty ? 0 : j->err;
}

int jj_call_value(struct jj *j, struct jj_value callee, const struct jj_args *args, struct jj_value *out)
{
    int r;
    switch (callee.type) {
    case JJ_UNDEFINED:
        return jj_fail_undefined(j, callee);
    case JJ_LOOP:
        return jj_loop_call(j, callee.loop, args, out);
    case JJ_JOINER:
        return call_joiner(j, callee.joiner, out);
    case JJ_FUNC:
        if (callee.fn->builtin) return jj_call_builtin(j, callee.fn->builtin, callee.fn->self, args, out);
        if (j->calls >= j->limits.depth) return jj_too_much(j, "nested calls", j->limits.depth);
        j->calls++;
        r = call_macro(j, callee.fn, args, out);
        j->calls--;
        return r;
    default:
        return jj_error(j, "'%s' object is not callable", jj_type_name(callee));
    }
}
