/* SPDX-License-Identifier: MIT */
/* Filters on the items of a collection: take some, apply a filter or a test to each, join them. */
#include "daemon/text/template/jinja-filters.h"

static struct jj_value generator(struct jj_seq *q)
{
    q->kind = JJ_GENERATOR;
    return jj_sequence(q);
}

int jj_f_length(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    *out = jj_int(0);
    return jj_length(j, c->self, &out->i);
}

int jj_f_first(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    if (c->self.type == JJ_SEQ && c->self.q->kind == JJ_GENERATOR && c->self.q->pos < c->self.q->n) {
        *out = c->self.q->v[c->self.q->pos++];
        return 0;
    }
    if (c->self.type == JJ_STR && c->self.s->chars) {
        int r = jj_get_item(j, c->self, jj_int(0), out);
        if (r == 0) out->s = jj_str_safe(j, out->s, false); /* one item as jj_iterate makes it */
        return r == 0 && !out->s ? j->err : r;
    }
    struct jj_seq *q = jj_iterate(j, c->self);
    if (!q) return j->err;
    if (!q->n) return jj_undefined(j, "no first item, sequence was empty", out);
    *out = q->v[0];
    return 0;
}

int jj_f_last(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    if (c->self.type == JJ_SEQ && c->self.q->kind == JJ_GENERATOR)
        return jj_error(j, "'generator' object is not reversible");
    if (c->self.type == JJ_STR && c->self.s->chars) return jj_get_item(j, c->self, jj_int(-1), out);
    struct jj_seq *q = jj_iterate(j, c->self);
    if (!q) return j->err;
    if (!q->n) return jj_undefined(j, "no last item, sequence was empty", out);
    *out = q->v[q->n - 1];
    return 0;
}

static struct jj_seq *copy(struct jj *j, struct jj_value of, enum jj_seq_kind kind)
{
    struct jj_seq *q = jj_iterate(j, of), *new = q ? jj_seq_new(j, kind, q->n) : NULL;
    if (!new || jj_charge(j, q->n / 16) < 0) return NULL;
    if (q->n) memcpy(new->v, q->v, q->n * sizeof(*q->v));
    new->n = q->n;
    return new;
}

int jj_f_list(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_seq *q = copy(j, c->self, JJ_LIST);
    if (!q) return j->err;
    *out = jj_sequence(q);
    return 0;
}

int jj_f_items(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    if (c->self.type != JJ_DICT && c->self.type != JJ_UNDEFINED)
        return jj_error(j, "can only get item pairs from a mapping");
    struct jj_seq *q = c->self.type == JJ_DICT ? jj_dict_view(j, c->self.d, JJ_ITEMS) : jj_seq_new(j, JJ_LIST, 0);
    if (!q) return j->err;
    *out = generator(q);
    return 0;
}

int jj_f_reverse(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_seq *q = copy(j, c->self, JJ_LIST);
    if (!q) return j->err;
    for (size_t i = 0; i < q->n / 2; i++) {
        struct jj_value v = q->v[i];
        q->v[i] = q->v[q->n - 1 - i];
        q->v[q->n - 1 - i] = v;
    }
    *out = generator(q);
    if (c->self.type != JJ_STR) return 0;
    struct jj_sb sb = {.j = j};
    int r = 0;
    for (size_t i = 0; i < q->n && r == 0; i++) r = jj_sb_str(&sb, q->v[i].s);
    return r < 0 ? r : jj_sb_finish(&sb, out);
}

int jj_f_join(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_seq *q = jj_iterate(j, c->self);
    const struct jj_str *between = !q ? NULL : jj_given(c->a[0]) ? jj_to_str(j, c->a[0]) : jj_str_lit(j, "");
    if (between && j->autoescape) between = jj_str_escape(j, between);
    if (!between) return j->err;
    struct jj_sb sb = {.j = j};
    int r = 0;
    for (size_t i = 0; i < q->n && r == 0; i++) {
        struct jj_value v;
        if (i) r = jj_sb_str(&sb, between);
        if (r == 0) r = jj_get_path(j, q->v[i], c->a[1], jj_none(), &v);
        const struct jj_str *s = r == 0 ? jj_to_str(j, v) : NULL;
        if (s && j->autoescape) s = jj_str_escape(j, s);
        if (r == 0) r = s ? jj_sb_str(&sb, s) : j->err;
        if (r == 0) r = jj_charge(j, 1);
    }
    if (r == 0) r = jj_sb_finish(&sb, out);
    if (r == 0 && j->autoescape && !(out->s = jj_str_safe(j, out->s, true))) r = j->err;
    return r;
}

/* map(attribute=…, default=…) of one item. */
static int map_attribute(struct jj *j, struct jj_value item, const struct jj_args *args, struct jj_value *out)
{
    struct jj_value path = jj_none(), fallback = jj_none();
    for (size_t i = 0; i < args->n_kw; i++) {
        const struct jj_str *k = args->kw[i].name;
        if (jj_str_is(k, "attribute"))
            path = args->kw[i].v;
        else if (jj_str_is(k, "default"))
            fallback = args->kw[i].v;
        else
            return jj_error(j, "map: unexpected keyword argument '%.*s'", k->len > 100 ? 100 : (int)k->len, k->p);
    }
    return jj_get_path(j, item, path, fallback, out);
}

/* Finds the builtin that args->pos[at] names, and the arguments that remain for it. */
static const struct jj_builtin *named(struct jj *j, const struct jj_args *args, size_t at, bool test,
                                      struct jj_args *rest)
{
    struct jj_value name = args->pos[at];
    const struct jj_builtin *b = NULL;
    if (name.type == JJ_STR) b = test ? j->upper->find_test(name.s) : j->upper->find_filter(name.s);
    const struct jj_str *s = b ? NULL : jj_to_str(j, name);
    if (s) jj_error(j, "no %s named '%.*s'", test ? "test" : "filter", s->len > 100 ? 100 : (int)s->len, s->p);
    *rest = (struct jj_args){args->pos + at + 1, args->n_pos - at - 1, args->kw, args->n_kw};
    return b;
}

int jj_f_map(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_args rest;
    const struct jj_builtin *filter = NULL;
    struct jj_seq *mapped = jj_seq_new(j, JJ_LIST, 0);
    if (!mapped) return j->err;
    *out = generator(mapped);
    if (!jj_truth(c->self)) return 0;
    if (!c->args->n_pos && !c->args->n_kw) return jj_error(j, "map requires a filter argument");
    if (c->args->n_pos && !(filter = named(j, c->args, 0, false, &rest))) return j->err;
    struct jj_seq *q = jj_iterate(j, c->self);
    int r = q ? jj_enter(j) : j->err;
    for (size_t i = 0; r == 0 && i < q->n; i++) {
        struct jj_value v;
        r = filter ? jj_call_builtin(j, filter, q->v[i], &rest, &v) : map_attribute(j, q->v[i], c->args, &v);
        if (r == 0) r = jj_seq_push(j, mapped, v);
    }
    jj_leave(j);
    return r;
}

int jj_f_select(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool reject = c->name[0] == 'r', attribute = strlen(c->name) > 6;
    struct jj_args rest;
    const struct jj_builtin *test = NULL;
    struct jj_seq *kept = jj_seq_new(j, JJ_LIST, 0);
    if (!kept) return j->err;
    *out = generator(kept);
    if (!jj_truth(c->self)) return 0;
    if (attribute && !c->args->n_pos) return jj_error(j, "missing parameter for attribute name");
    if (c->args->n_pos > attribute && !(test = named(j, c->args, attribute, true, &rest))) return j->err;
    struct jj_seq *q = jj_iterate(j, c->self);
    int r = q ? jj_enter(j) : j->err;
    for (size_t i = 0; r == 0 && i < q->n; i++) {
        struct jj_value v = q->v[i];
        if (attribute) r = jj_get_path(j, v, c->args->pos[0], jj_none(), &v);
        if (r == 0 && test) r = jj_call_builtin(j, test, v, &rest, &v);
        if (r == 0) r = jj_charge(j, 1);
        if (r == 0 && jj_truth(v) != reject) r = jj_seq_push(j, kept, q->v[i]);
    }
    jj_leave(j);
    return r;
}
