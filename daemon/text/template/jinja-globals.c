/* SPDX-License-Identifier: MIT */
/* The functions that every template can call. */
#include "daemon/text/template/jinja-eval.h"
#include "daemon/text/template/jinja-methods.h"

#define RANGE_MAX 100000 /* the limit of Jinja's sandbox */

static int g_range(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int64_t start = 0, stop = 0, step = 1;
    int r = jj_arg_int(j, c->a[0], jj_given(c->a[1]) ? &start : &stop);
    if (r == 0) r = jj_arg_int(j, c->a[1], &stop);
    if (r == 0) r = jj_arg_int(j, c->a[2], &step);
    if (r < 0) return r;
    if (!step) return jj_error(j, "range() arg 3 must not be zero");
    uint64_t n = 0, span = start < stop ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    if (step > 0 ? start < stop : start > stop) n = (span - 1) / (step > 0 ? (uint64_t)step : 0 - (uint64_t)step) + 1;
    if (n > RANGE_MAX) return jj_error(j, "range too big: more than %d items", RANGE_MAX);
    struct jj_seq *q = jj_seq_new(j, JJ_RANGE, (size_t)n);
    r = q ? jj_charge(j, n / 16) : j->err;
    if (r < 0) return r;
    for (int64_t i = 0; i < (int64_t)n; i++)
        q->v[q->n++] =
            jj_int((int64_t)((uint64_t)start + (uint64_t)i * (uint64_t)step)); /* in the end, all of them fit */
    q->start = start;
    q->stop = stop;
    q->step = step;
    *out = jj_sequence(q);
    return 0;
}

static int g_dict(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_dict *d = jj_dict_new(j);
    if (!d) return j->err;
    *out = jj_mapping(d);
    return jj_dict_fill(j, d, c->args);
}

static int g_namespace(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int r = g_dict(j, c, out);
    out->type = JJ_NAMESPACE;
    return r;
}

static int g_cycler(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    if (!c->args->n_pos || c->args->n_kw) return jj_error(j, "cycler() needs items");
    struct jj_cycler *cycler = jj_alloc(j, sizeof(*cycler));
    struct jj_seq *items = jj_seq_new(j, JJ_LIST, c->args->n_pos);
    if (!cycler || !items) return j->err;
    for (size_t i = 0; i < c->args->n_pos; i++) items->v[items->n++] = c->args->pos[i];
    cycler->items = items;
    *out = (struct jj_value){.type = JJ_CYCLER, .cycler = cycler};
    return 0;
}

static int g_joiner(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_joiner *joiner = jj_alloc(j, sizeof(*joiner));
    const struct jj_str *sep = jj_str_lit(j, ", ");
    if (!joiner || !sep) return j->err;
    joiner->sep = jj_given(c->a[0]) ? c->a[0] : jj_string(sep);
    *out = (struct jj_value){.type = JJ_JOINER, .joiner = joiner};
    return 0;
}

static int g_raise_exception(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *s = jj_to_str(j, c->a[0]);
    return s ? jj_error(j, "%.*s", s->len > 900 ? 900 : (int)s->len, s->p) : j->err;
}

static int g_strftime_now(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    const struct jj_str *fmt = NULL;
    int r = jj_arg_str(j, c, c->a[0], &fmt);
    return r < 0 ? r : jj_strftime(j, fmt, out);
}

static const struct jj_builtin globals[] = {
    {"range", g_range, "start stop step", 1},
    {"dict", g_dict, NULL, 0},
    {"namespace", g_namespace, NULL, 0},
    {"cycler", g_cycler, NULL, 0},
    {"joiner", g_joiner, "sep", 0},
    {"raise_exception", g_raise_exception, "message", 1},
    {"strftime_now", g_strftime_now, "format", 1},
};

const struct jj_builtin *jj_find_global(const struct jj_str *name)
{
    return JJ_FIND(globals, name);
}
