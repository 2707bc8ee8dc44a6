/* SPDX-License-Identifier: MIT */
#include "daemon/text/template/template.h"
#include "daemon/text/template/jinja-eval.h"
#include "libcommon/error.h"
#include <stdlib.h>

struct template
{
    struct jj_budget budget;
    struct jj_arena arena;
    struct jj_node *statements;
};

int template_new(struct template **out, const char *src, size_t len)
{
    struct template *t = calloc(1, sizeof(*t));
    if (!t) return error_origin(-ENOMEM);
    t->budget.left = TEMPLATE_TREE_MAX;
    t->arena.budget = &t->budget;
    int r = jj_parse(&t->arena, src, len, &t->statements);
    if (r < 0) {
        bool spent = r == -E2BIG && len <= TEMPLATE_SOURCE_MAX;
        template_free(t);
        if (spent) return error_say(r, "the template needs too much memory");
        return r == -ENOMEM ? error_origin(r) : r;
    }
    *out = t;
    return 0;
}

struct template *template_free(struct template *t)
{
    if (!t) return NULL;
    jj_arena_fini(&t->arena);
    free(t);
    return NULL;
}

static bool listed(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (!strcmp(*names, name)) return true;
    return false;
}

static int set_vars(struct jj *j, const json_t *vars, const char *const *trusted)
{
    j->vars = jj_dict_new(j);
    if (!j->vars) return j->err;
    const char *key;
    json_t *json;
    json_object_foreach((json_t *)vars, key, json)
    {
        struct jj_value v;
        const struct jj_str *name = jj_str_lit(j, key);
        int r = name ? jj_from_json(j, json, listed(trusted, key), &v) : j->err;
        if (r == 0) r = jj_dict_set(j, j->vars, jj_string(name), v);
        if (r < 0) return r;
    }
    return 0;
}

/* Appends all of @sb to @out, or nothing. */
static int deliver(const struct jj_sb *sb, struct text *out)
{
    size_t len = out->s.len, spans = out->n_spans, from = 0;
    size_t last_end = spans ? out->spans[spans - 1].end : 0;
    for (size_t i = 0; i < sb->n_spans; i++) {
        int r = text_append(out, sb->p + from, sb->spans[i].end - from, sb->spans[i].markup);
        if (r < 0) {
            out->s.len = len;
            if (out->s.data) out->s.data[len] = '\0';
            out->n_spans = spans;
            if (spans) out->spans[spans - 1].end = last_end;
            return error_origin(r);
        }
        from = sb->spans[i].end;
    }
    return 0;
}

int template_render(const struct template *t, const json_t *vars, const char *const *trusted, time_t now,
                    const struct template_limits *limits, struct text *out)
{
    static const struct template_limits standard = TEMPLATE_LIMITS;
    static const struct jj_upper upper = {.find_filter = jj_find_filter,
                                          .find_test = jj_find_test,
                                          .find_method = jj_find_method,
                                          .loop_attr = jj_loop_attr,
                                          .loop_repr = jj_loop_repr};
    struct jj j = {.upper = &upper, .limits = limits ? *limits : standard, .now = now, .line = 1};
    /* Values are larger than their text, but the limit on text also bounds the memory. */
    if (__builtin_mul_overflow((size_t)j.limits.output, 4, &j.budget.left) ||
        __builtin_add_overflow(j.budget.left, (size_t)16 << 20, &j.budget.left))
        j.budget.left = SIZE_MAX;
    j.mem.budget = j.text.budget = j.span.budget = &j.budget;

    struct jj_sb sb = {.j = &j};
    struct jj_scope top = {0};
    int r = set_vars(&j, vars, trusted);
    if (r == 0) r = jj_exec(&j, &top, t->statements, &sb);
    if (r == 0) r = deliver(&sb, out);
    jj_arena_fini(&j.mem);
    jj_arena_fini(&j.text);
    jj_arena_fini(&j.span);
    return r;
}
