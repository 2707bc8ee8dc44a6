/* SPDX-License-Identifier: MIT */
/* Statements. */
#include "daemon/text/template/jinja-exec.h"
#include "daemon/text/template/jinja-eval.h"

int jj_scope_set(struct jj *j, struct jj_scope *s, const struct jj_str *name, struct jj_value v)
{
    struct jj_var *var;
    uint64_t passed = 0;
    for (var = s->vars; var; var = var->next, passed++)
        if (jj_str_eq(var->name, name)) break;
    if (jj_charge_names(j, passed, name) < 0) return j->err;
    if (!var) {
        var = s->spare;
        if (var)
            s->spare = var->next;
        else if (!(var = jj_alloc(j, sizeof(*var))))
            return j->err;
        var->name = name;
        var->next = s->vars;
        s->vars = var;
    }
    var->v = v;
    return 0;
}

static int assign_attr(struct jj *j, struct jj_scope *s, const struct jj_node *target, struct jj_value v)
{
    struct jj_node name = {.kind = JJ_N_NAME, .line = target->line, .name = target->name};
    struct jj_value ns;
    int r = jj_eval(j, s, &name, &ns);
    if (r < 0) return r;
    if (ns.type != JJ_NAMESPACE) return jj_error(j, "cannot assign attribute on non-namespace object");
    return jj_dict_set(j, ns.d, target->value, v);
}

int jj_assign(struct jj *j, struct jj_scope *s, const struct jj_node *target, struct jj_value v)
{
    if (target->kind == JJ_N_NAME) return jj_scope_set(j, s, target->name, v);
    if (target->kind == JJ_N_NSREF) return assign_attr(j, s, target, v);

    struct jj_seq *q = jj_iterate(j, v);
    if (!q) return j->err;
    if (q->n < target->n) return jj_error(j, "not enough values to unpack (expected %u, got %zu)", target->n, q->n);
    if (q->n > target->n) return jj_error(j, "too many values to unpack (expected %u)", target->n);
    size_t k = 0;
    int r = jj_charge(j, target->n / 16);
    for (const struct jj_node *i = target->list; i && r == 0; i = i->next) r = jj_assign(j, s, i, q->v[k++]);
    return r;
}

int jj_capture(struct jj *j, struct jj_scope *parent, const struct jj_node *statements, struct jj_value *out)
{
    struct jj_scope *inner = jj_alloc(j, sizeof(*inner)); /* on the arena: macros defined in it may outlive it */
    if (!inner) return j->err;
    inner->parent = parent;
    struct jj_sb sb = {.j = j};
    int r = jj_exec(j, inner, statements, &sb);
    if (r == 0) r = jj_sb_finish(&sb, out);
    if (r == 0 && j->autoescape && !(out->s = jj_str_safe(j, out->s, true))) r = j->err;
    return r;
}

static int exec_data(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    return jj_sb_str(out, n->value.s);
}

static int exec_output(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_value v;
    int r = jj_eval(j, s, n->a, &v);
    if (r < 0 || !j->autoescape) return r < 0 ? r : jj_sb_value(out, v);
    const struct jj_str *str = jj_to_str(j, v);
    if (str) str = jj_str_escape(j, str);
    return str ? jj_sb_str(out, str) : j->err;
}

static int exec_if(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    for (const struct jj_node *branch = n->list; branch; branch = branch->next) {
        struct jj_value test = jj_bool(true);
        int r = branch->a ? jj_eval(j, s, branch->a, &test) : 0;
        if (r < 0) return r;
        if (jj_truth(test)) return jj_exec(j, s, branch->b, out);
    }
    return 0;
}

static int exec_for(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_value of;
    int r = jj_eval(j, s, n->b, &of);
    j->line = n->line;
    return r < 0 ? r : jj_loop_run(j, s, n, of, 0, out);
}

static int exec_set(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_value v;
    int r = jj_eval(j, s, n->b, &v);
    j->line = n->line;
    return r < 0 ? r : jj_assign(j, s, n->a, v);
}

/* Applies the filters of a block to @v, innermost first. */
static int apply_filters(struct jj *j, struct jj_scope *s, const struct jj_node *f, struct jj_value *v)
{
    int r = f->a ? apply_filters(j, s, f->a, v) : 0;
    if (r < 0) return r;
    struct jj_node text = {.kind = JJ_N_CONST, .line = f->line, .value = *v}, node = *f;
    node.a = &text;
    return jj_eval(j, s, &node, v);
}

static int exec_set_block(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_value v;
    int r = jj_capture(j, s, n->list, &v);
    if (r == 0 && n->b) r = apply_filters(j, s, n->b, &v);
    j->line = n->line;
    return r < 0 ? r : jj_assign(j, s, n->a, v);
}

static int macro_value(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out)
{
    struct jj_func *fn = jj_alloc(j, sizeof(*fn));
    if (!fn) return j->err;
    fn->macro = n;
    fn->scope = s;
    j->closures++;
    *out = (struct jj_value){.type = JJ_FUNC, .fn = fn};
    return 0;
}

static int exec_macro(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_value v;
    int r = macro_value(j, s, n, &v);
    return r < 0 ? r : jj_scope_set(j, s, n->name, v);
}

/* A call with one more argument: caller. */
static int exec_call_block(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_value callee, caller, v;
    struct jj_args args;
    int r = jj_eval(j, s, n->a->a, &callee);
    if (r == 0) r = jj_eval_args(j, s, n->a, &args);
    if (r == 0) r = macro_value(j, s, n->b, &caller);
    if (r < 0) return r;
    struct jj_kwarg *kw = jj_alloc_n(j, args.n_kw + 1, sizeof(*kw));
    const struct jj_str *name = jj_str_lit(j, "caller");
    if (!kw || !name) return j->err;
    if (args.n_kw) memcpy(kw, args.kw, args.n_kw * sizeof(*kw));
    kw[args.n_kw++] = (struct jj_kwarg){name, caller};
    args.kw = kw;
    j->line = n->line;
    r = jj_call_value(j, callee, &args, &v);
    return r < 0 ? r : jj_sb_value(out, v);
}

static int exec_filter_block(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_value v;
    int r = jj_capture(j, s, n->list, &v);
    if (r == 0) r = apply_filters(j, s, n->b, &v);
    return r < 0 ? r : jj_sb_value(out, v);
}

static int exec_inner(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_scope *inner = jj_alloc(j, sizeof(*inner));
    if (!inner) return j->err;
    inner->parent = s;
    return jj_exec(j, inner, n->list, out);
}

static int exec_block(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    while (!n->flag && s->parent) s = s->parent;
    return exec_inner(j, s, n, out);
}

static int exec_self(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_value self = {.type = JJ_NAMESPACE, .d = jj_dict_new(j)}, v;
    const struct jj_str *name = jj_str_lit(j, "self");
    if (!self.d || !name) return j->err;
    for (const struct jj_node *b = n->list; b; b = b->next)
        if (macro_value(j, s, b, &v) < 0 || jj_dict_set(j, self.d, jj_string(b->name), v) < 0) return j->err;
    return jj_scope_set(j, s, name, self);
}

static int exec_with(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_scope *inner = jj_alloc(j, sizeof(*inner));
    if (!inner) return j->err;
    inner->parent = s;
    for (const struct jj_node *i = n->d; i; i = i->next) {
        struct jj_value v;
        int r = jj_eval(j, s, i->b, &v);
        if (r == 0) r = jj_assign(j, inner, i->a, v);
        if (r < 0) return r;
    }
    return jj_exec(j, inner, n->list, out);
}

static int exec_autoescape(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    struct jj_value v;
    int r = jj_eval(j, s, n->a, &v);
    if (r < 0) return r;
    bool before = j->autoescape;
    j->autoescape = jj_truth(v);
    r = exec_inner(j, s, n, out);
    j->autoescape = before;
    return r;
}

static int exec_jump(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_sb *out)
{
    return n->kind == JJ_N_BREAK ? JJ_BREAK : JJ_CONTINUE;
}

typedef int (*exec_fn)(struct jj *, struct jj_scope *, const struct jj_node *, struct jj_sb *);

static const exec_fn executors[JJ_N_KINDS] = {
    [JJ_N_DATA] = exec_data,
    [JJ_N_OUTPUT] = exec_output,
    [JJ_N_IF] = exec_if,
    [JJ_N_FOR] = exec_for,
    [JJ_N_SET] = exec_set,
    [JJ_N_SET_BLOCK] = exec_set_block,
    [JJ_N_MACRO] = exec_macro,
    [JJ_N_CALL_BLOCK] = exec_call_block,
    [JJ_N_FILTER_BLOCK] = exec_filter_block,
    [JJ_N_WITH] = exec_with,
    [JJ_N_SCOPE] = exec_inner,
    [JJ_N_BLOCK] = exec_block,
    [JJ_N_SELF] = exec_self,
    [JJ_N_AUTOESCAPE] = exec_autoescape,
    [JJ_N_BREAK] = exec_jump,
    [JJ_N_CONTINUE] = exec_jump,
};

int jj_exec(struct jj *j, struct jj_scope *s, const struct jj_node *statements, struct jj_sb *out)
{
    int r = jj_enter(j);
    for (const struct jj_node *n = statements; n && r == 0; n = n->next) {
        j->line = n->line;
        r = jj_charge(j, 1);
        if (r == 0) r = executors[n->kind](j, s, n, out);
    }
    jj_leave(j);
    return r;
}
