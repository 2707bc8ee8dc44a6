/* SPDX-License-Identifier: MIT */
/* Filters that sort, group, cut and count collections. */
#include "daemon/text/template/jinja-filters.h"

static struct jj_value generator(struct jj_seq *q)
{
    q->kind = JJ_GENERATOR;
    return jj_sequence(q);
}

/* The key that an item is sorted by: its attribute, without case if it is text. */
static int key_of(struct jj *j, struct jj_value item, struct jj_value path, bool case_sensitive, struct jj_value *out)
{
    int r = jj_get_path(j, item, path, jj_none(), out);
    if (r < 0 || case_sensitive || out->type != JJ_STR) return r;
    out->s = jj_change_case(j, out->s, JJ_TO_LOWER);
    return out->s ? jj_charge_bytes(j, out->s->len) : j->err;
}

/* The key for "a,b" is a list of both. The filter always uses a list, because [None] can be compared and None cannot.
 */
static int multi_key(struct jj *j, struct jj_value item, struct jj_value path, bool case_sensitive,
                     struct jj_value *out)
{
    if (path.type == JJ_NONE || path.type == JJ_INT) return key_of(j, item, path, case_sensitive, out);
    struct jj_seq *keys = jj_seq_new(j, JJ_LIST, 1);
    int r = 0;
    if (!keys) return j->err;
    if (path.type != JJ_STR) {
        r = key_of(j, item, path, case_sensitive, &keys->v[0]);
        keys->n = 1;
        *out = jj_sequence(keys);
        return r;
    }
    for (size_t from = 0; from <= path.s->len && r == 0;) {
        const char *comma = from < path.s->len ? memchr(path.s->p + from, ',', path.s->len - from) : NULL;
        size_t to = comma ? (size_t)(comma - path.s->p) : path.s->len;
        const struct jj_str *part = jj_str_sub(j, path.s, from, to - from);
        struct jj_value key;
        r = part ? key_of(j, item, jj_string(part), case_sensitive, &key) : j->err;
        if (r == 0) r = jj_seq_push(j, keys, key);
        from = to + 1;
    }
    *out = jj_sequence(keys);
    return r;
}

struct pair {
    struct jj_value key, item;
};

/* One pass of a merge sort: runs of @width in @a become runs of 2 @width in @b. */
static int merge_pass(struct jj *j, const struct pair *a, struct pair *b, size_t n, size_t width, bool reverse)
{
    for (size_t lo = 0; lo < n; lo += 2 * width) {
        size_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
        size_t l = lo, r = mid;
        for (size_t k = lo; k < hi; k++) {
            int order = 0, err = 0;
            if (l < mid && r < hi) err = jj_compare(j, "<", a[r].key, a[l].key, &order);
            if (err < 0) return err;
            bool right = l == mid || (r < hi && order == (reverse ? 1 : -1));
            b[k] = right ? a[r++] : a[l++];
        }
    }
    return jj_charge(j, n / 16);
}

int jj_sorted(struct jj *j, struct jj_value of, struct jj_value path, bool reverse, bool case_sensitive,
              struct jj_seq **out)
{
    struct jj_seq *q = jj_iterate(j, of), *sorted = q ? jj_seq_new(j, JJ_LIST, q->n) : NULL;
    if (!sorted) return j->err;
    struct pair *a = jj_alloc_n(j, q->n, sizeof(*a)), *b = a ? jj_alloc_n(j, q->n, sizeof(*b)) : NULL;
    if (!b) return j->err;
    size_t n = q->n;
    for (size_t i = 0; i < n; i++) {
        a[i].item = q->v[i];
        int r = multi_key(j, q->v[i], path, case_sensitive, &a[i].key);
        if (r < 0) return r;
    }
    for (size_t width = 1; width < n; width *= 2) {
        int r = merge_pass(j, a, b, n, width, reverse);
        if (r < 0) return r;
        struct pair *t = a;
        a = b;
        b = t;
    }
    for (size_t i = 0; i < n; i++) sorted->v[sorted->n++] = a[i].item;
    *out = sorted;
    return 0;
}

/* Python's sorted() accepts only a number here. */
static int arg_reverse(struct jj *j, struct jj_value v, bool *out)
{
    int64_t i = 0;
    int r = jj_arg_int(j, v, &i);
    *out = i != 0;
    return r;
}

int jj_f_sort(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool reverse = false, case_sensitive = false;
    jj_arg_bool(c->a[1], &case_sensitive);
    struct jj_seq *q;
    int r = arg_reverse(j, c->a[0], &reverse);
    if (r == 0) r = jj_sorted(j, c->self, c->a[2], reverse, case_sensitive, &q);
    if (r == 0) *out = jj_sequence(q);
    return r;
}

int jj_f_dictsort(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool case_sensitive = false, reverse = false;
    const struct jj_str *by = NULL;
    jj_arg_bool(c->a[0], &case_sensitive);
    int r = jj_check_defined(j, c->self);
    if (r == 0) r = arg_reverse(j, c->a[2], &reverse);
    if (r == 0) r = jj_arg_str(j, c, c->a[1], &by);
    if (r < 0) return r;
    if (c->self.type != JJ_DICT) return jj_error(j, "dictsort needs a mapping, not %s", jj_type_name(c->self));
    bool value = by && jj_str_is(by, "value");
    if (by && !value && !jj_str_is(by, "key")) return jj_error(j, "you can only sort by either \"key\" or \"value\"");
    struct jj_seq *items = jj_dict_view(j, c->self.d, JJ_ITEMS), *q;
    if (!items) return j->err;
    r = jj_sorted(j, jj_sequence(items), jj_int(value), reverse, case_sensitive, &q);
    if (r == 0) *out = jj_sequence(q);
    return r;
}

/* Makes a list of the pairs (key, item), sorted by the key. */
static int keyed(struct jj *j, const struct jj_call *c, bool case_sensitive, struct jj_seq **out)
{
    struct jj_seq *q = jj_iterate(j, c->self), *pairs = q ? jj_seq_new(j, JJ_LIST, q->n) : NULL;
    if (!pairs) return j->err;
    for (size_t i = 0; i < q->n; i++) {
        struct jj_value key, pair;
        int r = jj_get_path(j, q->v[i], c->a[0], c->a[1], &key);
        if (r == 0) r = jj_pair(j, key, q->v[i], &pair);
        if (r == 0) r = jj_seq_push(j, pairs, pair);
        if (r < 0) return r;
    }
    return jj_sorted(j, jj_sequence(pairs), jj_int(0), false, case_sensitive, out);
}

int jj_f_groupby(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool case_sensitive = false;
    jj_arg_bool(c->a[2], &case_sensitive);
    struct jj_seq *pairs, *groups = jj_seq_new(j, JJ_LIST, 0), *members = NULL;
    int r = groups ? keyed(j, c, case_sensitive, &pairs) : j->err;
    struct jj_value last = {.type = JJ_ABSENT};
    for (size_t i = 0; r == 0 && i < pairs->n; i++) {
        const struct jj_value *pair = pairs->v[i].q->v;
        struct jj_value key;
        bool same = false;
        r = key_of(j, pair[0], jj_none(), case_sensitive, &key);
        if (r == 0 && members) r = jj_equal(j, last, key, &same);
        if (r < 0) return r;
        if (!same) {
            struct jj_value group;
            members = jj_seq_new(j, JJ_LIST, 0);
            r = members ? jj_pair(j, pair[0], jj_sequence(members), &group) : j->err;
            if (r < 0) return r;
            group.q->kind = JJ_GROUP;
            r = jj_seq_push(j, groups, group);
            last = key;
        }
        if (r == 0) r = jj_seq_push(j, members, pair[1]);
    }
    *out = jj_sequence(groups);
    return r;
}

int jj_f_unique(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool case_sensitive = false;
    jj_arg_bool(c->a[0], &case_sensitive);
    struct jj_seq *q = jj_iterate(j, c->self), *kept = q ? jj_seq_new(j, JJ_LIST, 0) : NULL;
    struct jj_dict *seen = kept ? jj_dict_new(j) : NULL;
    if (!seen) return j->err;
    for (size_t i = 0; i < q->n; i++) {
        struct jj_value key, ignored;
        int r = key_of(j, q->v[i], c->a[1], case_sensitive, &key);
        if (r == 0) r = jj_dict_get(j, seen, key, &ignored);
        if (r < 0) return r;
        if (r) continue;
        r = jj_dict_set(j, seen, key, jj_none());
        if (r == 0) r = jj_seq_push(j, kept, q->v[i]);
        if (r < 0) return r;
    }
    *out = generator(kept);
    return 0;
}

int jj_f_min_max(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool case_sensitive = false, most = c->name[1] == 'a';
    jj_arg_bool(c->a[0], &case_sensitive);
    struct jj_seq *q = jj_iterate(j, c->self);
    if (!q) return j->err;
    if (!q->n) return jj_undefined(j, "no aggregated item, sequence was empty", out);
    struct jj_value best, key;
    *out = q->v[0];
    int r = key_of(j, q->v[0], c->a[1], case_sensitive, &best);
    for (size_t i = 1; i < q->n && r == 0; i++) {
        int order = 0;
        r = key_of(j, q->v[i], c->a[1], case_sensitive, &key);
        if (r == 0) r = jj_compare(j, most ? ">" : "<", key, best, &order);
        if (r < 0 || order != (most ? 1 : -1)) continue;
        best = key;
        *out = q->v[i];
    }
    return r;
}

int jj_f_sum(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_seq *q = jj_iterate(j, c->self);
    if (!q) return j->err;
    *out = jj_given(c->a[1]) ? c->a[1] : jj_int(0);
    int r = out->type == JJ_STR ? jj_error(j, "sum() can't sum strings [use ''.join(seq) instead]") : 0;
    for (size_t i = 0; i < q->n && r == 0; i++) {
        struct jj_value v;
        r = jj_get_path(j, q->v[i], c->a[0], jj_none(), &v);
        if (r == 0) r = jj_binary(j, JJ_OP_ADD, *out, v, out);
    }
    return r;
}

int jj_f_batch(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int64_t count = 0;
    int r = jj_arg_int(j, c->a[0], &count);
    struct jj_seq *q = r < 0 ? NULL : jj_iterate(j, c->self), *rows = q ? jj_seq_new(j, JJ_LIST, 0) : NULL, *row = NULL;
    if (!rows) return j->err;
    if (q->n && !count) { /* as in Jinja: one empty slice, then all other items */
        row = jj_seq_new(j, JJ_LIST, 0);
        r = row ? jj_seq_push(j, rows, jj_sequence(row)) : j->err;
    }
    for (size_t i = 0; i < q->n && r == 0; i++) {
        if (!row || (int64_t)row->n == count) {
            row = jj_seq_new(j, JJ_LIST, 0);
            r = row ? jj_seq_push(j, rows, jj_sequence(row)) : j->err;
        }
        if (r == 0) r = jj_seq_push(j, row, q->v[i]);
    }
    bool fill = row && jj_given(c->a[1]) && c->a[1].type != JJ_NONE;
    while (r == 0 && fill && (int64_t)row->n < count) {
        r = jj_charge(j, 1);
        if (r == 0) r = jj_seq_push(j, row, c->a[1]);
    }
    *out = generator(rows);
    return r;
}

int jj_f_slice(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    int64_t slices = 0;
    int r = jj_arg_int(j, c->a[0], &slices);
    struct jj_seq *q = r < 0 ? NULL : jj_iterate(j, c->self), *rows = q ? jj_seq_new(j, JJ_LIST, 0) : NULL;
    if (!rows) return j->err;
    if (!slices) return jj_error(j, "integer division or modulo by zero");
    size_t each = slices > 0 ? q->n / (size_t)slices : 0, extra = slices > 0 ? q->n % (size_t)slices : 0, at = 0;
    for (int64_t k = 0; k < slices && r == 0; k++) {
        struct jj_seq *row = jj_seq_new(j, JJ_LIST, 0);
        size_t n = each + ((size_t)k < extra);
        r = row ? jj_charge(j, n + 1) : j->err;
        for (size_t i = 0; i < n && r == 0; i++) r = jj_seq_push(j, row, q->v[at++]);
        bool fill = jj_given(c->a[1]) && c->a[1].type != JJ_NONE && (size_t)k >= extra;
        if (r == 0 && fill) r = jj_seq_push(j, row, c->a[1]);
        if (r == 0) r = jj_seq_push(j, rows, jj_sequence(row));
    }
    *out = generator(rows);
    return r;
}
