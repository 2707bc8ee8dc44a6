/* SPDX-License-Identifier: MIT */
/* The methods of lists, tuples, dictionaries and cyclers. */
#include "daemon/text/template/jinja-methods.h"

static int l_append(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    *out = jj_none();
    return jj_seq_push(j, c->self.q, c->a[0]);
}

static int l_extend(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_seq *more = jj_iterate(j, c->a[0]);
    *out = jj_none();
    if (!more) return j->err;
    int r = 0;
    for (size_t i = 0, n = more->n; i < n && r == 0; i++) {
        r = jj_charge(j, 1);
        if (r == 0) r = jj_seq_push(j, c->self.q, more->v[i]);
    }
    return r;
}

static int l_insert(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_seq *q = c->self.q;
    int64_t at = 0, n = (int64_t)q->n;
    int r = jj_arg_int(j, c->a[0], &at);
    if (r == 0) r = jj_charge(j, q->n / 16);
    if (r == 0) r = jj_seq_push(j, q, c->a[1]);
    if (r < 0) return r;
    if (at < 0) at = at < -n ? 0 : at + n;
    if (at > n) at = n;
    memmove(q->v + at + 1, q->v + at, (size_t)(n - at) * sizeof(*q->v));
    q->v[at] = c->a[1];
    *out = jj_none();
    return 0;
}

static void remove_at(struct jj_seq *q, size_t at)
{
    q->n--;
    memmove(q->v + at, q->v + at + 1, (q->n - at) * sizeof(*q->v));
}

static int l_pop(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_seq *q = c->self.q;
    int64_t at = -1, n = (int64_t)q->n;
    int r = jj_arg_int(j, c->a[0], &at);
    if (r == 0) r = jj_charge(j, q->n / 16);
    if (r < 0) return r;
    if (!n) return jj_error(j, "pop from empty list");
    if (at < 0) at += n;
    if (at < 0 || at >= n) return jj_error(j, "pop index out of range");
    *out = q->v[at];
    remove_at(q, (size_t)at);
    return 0;
}

/* Index of the argument, or n. */
static int locate(struct jj *j, const struct jj_call *c, size_t *at)
{
    const struct jj_seq *q = c->self.q;
    for (*at = 0; *at < q->n; ++*at) {
        bool eq;
        int r = jj_equal(j, q->v[*at], c->a[0], &eq);
        if (r < 0 || eq) return r;
    }
    return 0;
}

static int l_remove(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    size_t at;
    int r = locate(j, c, &at);
    if (r < 0) return r;
    if (at == c->self.q->n) return jj_error(j, "list.remove(x): x not in list");
    remove_at(c->self.q, at);
    *out = jj_none();
    return 0;
}

static int l_index(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    size_t at;
    int r = locate(j, c, &at);
    if (r < 0) return r;
    if (at == c->self.q->n) return jj_error(j, "the value is not in the %s", jj_type_name(c->self));
    *out = jj_int((int64_t)at);
    return 0;
}

static int l_count(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    *out = jj_int(0);
    for (size_t i = 0; i < c->self.q->n; i++) {
        bool eq;
        int r = jj_equal(j, c->self.q->v[i], c->a[0], &eq);
        if (r < 0) return r;
        out->i += eq;
    }
    return 0;
}

static int l_reverse(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_seq *q = c->self.q;
    for (size_t i = 0; i < q->n / 2; i++) {
        struct jj_value v = q->v[i];
        q->v[i] = q->v[q->n - 1 - i];
        q->v[q->n - 1 - i] = v;
    }
    *out = jj_none();
    return jj_charge(j, q->n / 16);
}

static int l_sort(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool reverse = false;
    jj_arg_bool(c->a[0], &reverse);
    struct jj_seq *sorted;
    int r = jj_sorted(j, c->self, jj_none(), reverse, true, &sorted);
    if (r < 0) return r;
    if (sorted->n) memcpy(c->self.q->v, sorted->v, sorted->n * sizeof(*sorted->v));
    *out = jj_none();
    return 0;
}

static int l_copy(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    static const struct jj_value whole[3] = {{.type = JJ_NONE}, {.type = JJ_NONE}, {.type = JJ_NONE}};
    return jj_get_slice(j, c->self, whole, out);
}

static int l_clear(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    c->self.q->n = 0;
    *out = jj_none();
    return 0;
}

static const struct jj_builtin list_methods[] = {
    {"append", l_append, "object", 1},
    {"extend", l_extend, "iterable", 1},
    {"insert", l_insert, "index object", 2},
    {"pop", l_pop, "index", 0},
    {"remove", l_remove, "value", 1},
    {"reverse", l_reverse, "", 0},
    {"sort", l_sort, "reverse", 0},
    {"copy", l_copy, "", 0},
    {"clear", l_clear, "", 0},
    {"index", l_index, "value", 1},
    {"count", l_count, "value", 1},
};

static const struct jj_builtin tuple_methods[] = {
    {"index", l_index, "value", 1},
    {"count", l_count, "value", 1},
};

static int view(struct jj *j, const struct jj_call *c, enum jj_seq_kind kind, struct jj_value *out)
{
    struct jj_seq *q = jj_dict_view(j, c->self.d, kind);
    if (!q) return j->err;
    *out = jj_sequence(q);
    return 0;
}

static int d_items(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return view(j, c, JJ_ITEMS, out);
}

static int d_keys(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return view(j, c, JJ_KEYS, out);
}

static int d_values(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    return view(j, c, JJ_VALUES, out);
}

static int d_get(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int r = jj_dict_get(j, c->self.d, c->a[0], out);
    if (r == 0) *out = jj_given(c->a[1]) ? c->a[1] : jj_none();
    return r < 0 ? r : 0;
}

static int d_pop(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int r = jj_dict_del(j, c->self.d, c->a[0], out);
    if (r) return r < 0 ? r : 0;
    if (!jj_given(c->a[1])) return jj_error(j, "pop(): no such key");
    *out = c->a[1];
    return 0;
}

static int d_popitem(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_dict *d = c->self.d;
    if (!d->n) return jj_error(j, "popitem(): dictionary is empty");
    struct jj_value k = d->e[d->n - 1].k, v;
    int r = jj_dict_del(j, d, k, &v);
    return r < 0 ? r : jj_pair(j, k, v, out);
}

static int d_setdefault(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int r = jj_dict_get(j, c->self.d, c->a[0], out);
    if (r) return r < 0 ? r : 0;
    *out = jj_given(c->a[1]) ? c->a[1] : jj_none();
    return jj_dict_set(j, c->self.d, c->a[0], *out);
}

int jj_dict_fill(struct jj *j, struct jj_dict *d, const struct jj_args *args)
{
    int r = 0;
    if (args->n_pos > 1) return jj_error(j, "dict expected at most 1 argument, got %zu", args->n_pos);
    if (args->n_pos) r = jj_check_defined(j, args->pos[0]);
    if (r < 0) return r;
    if (args->n_pos && args->pos[0].type == JJ_DICT) {
        const struct jj_dict *from = args->pos[0].d;
        r = jj_charge(j, from->n / 4);
        for (size_t i = 0; i < from->n && r == 0; i++) r = jj_dict_set(j, d, from->e[i].k, from->e[i].v);
    } else if (args->n_pos) {
        struct jj_seq *q = jj_iterate(j, args->pos[0]);
        if (!q) return j->err;
        r = jj_charge(j, q->n / 4);
        for (size_t i = 0; i < q->n && r == 0; i++) {
            struct jj_seq *pair = jj_iterate(j, q->v[i]);
            if (!pair) return j->err;
            if (pair->n != 2) return jj_error(j, "dictionary update sequence element #%zu is not a pair", i);
            r = jj_dict_set(j, d, pair->v[0], pair->v[1]);
        }
    }
    if (r == 0) r = jj_charge(j, args->n_kw / 4);
    for (size_t i = 0; i < args->n_kw && r == 0; i++) r = jj_dict_set(j, d, jj_string(args->kw[i].name), args->kw[i].v);
    return r;
}

static int d_update(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    *out = jj_none();
    return jj_dict_fill(j, c->self.d, c->args);
}

static int d_copy(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_dict *d = jj_dict_new(j);
    struct jj_args args = {&c->self, 1, NULL, 0};
    if (!d) return j->err;
    *out = jj_mapping(d);
    return jj_dict_fill(j, d, &args);
}

static int d_clear(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    *c->self.d = (struct jj_dict){0};
    *out = jj_none();
    return 0;
}

static const struct jj_builtin dict_methods[] = {
    {"items", d_items, "", 0},
    {"keys", d_keys, "", 0},
    {"values", d_values, "", 0},
    {"get", d_get, "key default", 1},
    {"pop", d_pop, "key default", 1},
    {"popitem", d_popitem, "", 0},
    {"setdefault", d_setdefault, "key default", 1},
    {"update", d_update, NULL, 0},
    {"copy", d_copy, "", 0},
    {"clear", d_clear, "", 0},
};

static int c_next(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_cycler *cycler = c->self.cycler;
    *out = cycler->items->v[cycler->pos];
    cycler->pos = (cycler->pos + 1) % cycler->items->n;
    return 0;
}

static int c_reset(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    c->self.cycler->pos = 0;
    *out = jj_none();
    return 0;
}

static const struct jj_builtin cycler_methods[] = {
    {"next", c_next, "", 0},
    {"reset", c_reset, "", 0},
};

const struct jj_builtin *jj_find_method(struct jj_value of, const struct jj_str *name)
{
    if (of.type == JJ_STR) return jj_find_str_method(name);
    if (of.type == JJ_DICT) return JJ_FIND(dict_methods, name);
    if (of.type == JJ_CYCLER) return JJ_FIND(cycler_methods, name);
    if (jj_is_list(of)) return JJ_FIND(list_methods, name);
    if (jj_is_tuple(of) || (of.type == JJ_SEQ && of.q->kind == JJ_RANGE)) return JJ_FIND(tuple_methods, name);
    return NULL;
}
