/* SPDX-License-Identifier: MIT */
/* Attributes, items and slices. */
#include "daemon/text/template/jinja-eval.h"

static int method_value(struct jj *j, const struct jj_builtin *b, struct jj_value self, struct jj_value *out)
{
    struct jj_func *fn = jj_alloc(j, sizeof(*fn));
    if (!fn) return j->err;
    fn->builtin = b;
    fn->self = self;
    *out = (struct jj_value){.type = JJ_FUNC, .fn = fn};
    return 0;
}

static int macro_attr(struct jj *j, const struct jj_func *fn, const struct jj_str *name, struct jj_value *out)
{
    const struct jj_node *m = fn->macro;
    if (!m) return 1;
    if (jj_str_is(name, "name")) {
        *out = m->name ? jj_string(m->name) : jj_none();
    } else if (jj_str_is(name, "arguments")) {
        struct jj_seq *q = jj_seq_new(j, JJ_TUPLE, 0);
        if (!q) return j->err;
        for (const struct jj_node *p = m->d; p; p = p->next)
            if (jj_seq_push(j, q, jj_string(p->name)) < 0) return j->err;
        *out = jj_sequence(q);
    } else if (jj_str_is(name, "caller")) {
        *out = jj_bool(m->uses & JJ_USES_CALLER);
    } else if (jj_str_is(name, "catch_kwargs")) {
        *out = jj_bool(m->uses & JJ_USES_KWARGS);
    } else if (jj_str_is(name, "catch_varargs")) {
        *out = jj_bool(m->uses & JJ_USES_VARARGS);
    } else {
        return 1;
    }
    return 0;
}

/* Finds what Python's getattr finds. 1: nothing. */
static int own_attr(struct jj *j, struct jj_value obj, const struct jj_str *name, struct jj_value *out)
{
    if (obj.type == JJ_LOOP) return j->upper->loop_attr(j, obj, name, out);
    if (obj.type == JJ_FUNC) return macro_attr(j, obj.fn, name, out);
    if (obj.type == JJ_NAMESPACE) {
        int r = jj_dict_get_str(j, obj.d, name, out);
        return r < 0 ? r : !r;
    }
    if (obj.type == JJ_CYCLER && jj_str_is(name, "current")) {
        *out = obj.cycler->items->v[obj.cycler->pos];
        return 0;
    }
    if (obj.type == JJ_SEQ && obj.q->kind == JJ_GROUP && (jj_str_is(name, "grouper") || jj_str_is(name, "list"))) {
        *out = obj.q->v[name->p[0] == 'l'];
        return 0;
    }
    const struct jj_builtin *b = j->upper->find_method(obj, name);
    return b ? method_value(j, b, obj, out) : 1;
}

/* Finds what obj[key] finds. 1: nothing. */
static int own_item(struct jj *j, struct jj_value obj, struct jj_value key, struct jj_value *out)
{
    if (obj.type == JJ_DICT) {
        int r = jj_hashable(j, key);
        if (r > 0) r = jj_dict_get(j, obj.d, key, out);
        return r < 0 ? r : !r;
    }
    bool indexed = obj.type == JJ_STR || (obj.type == JJ_SEQ && obj.q->kind <= JJ_RANGE);
    if (!indexed || !jj_is_integral(key)) return 1;
    int64_t n = obj.type == JJ_STR ? (int64_t)obj.s->chars : (int64_t)obj.q->n, i = jj_integral(key);
    if (i < 0) i += n;
    if (i < 0 || i >= n) return 1;
    if (obj.type == JJ_SEQ) {
        *out = obj.q->v[i];
        return 0;
    }
    size_t from = jj_str_offset(obj.s, (size_t)i);
    uint32_t c;
    const struct jj_str *one = jj_str_sub(j, obj.s, from, jj_char(obj.s->p + from, &c));
    *out = jj_string(one);
    return one ? jj_charge_bytes(j, obj.s->chars == obj.s->len ? 0 : from) : j->err;
}

int jj_get_attr(struct jj *j, struct jj_value obj, struct jj_value name, struct jj_value *out)
{
    int r = jj_check_defined(j, obj);
    if (r == 0) r = own_attr(j, obj, name.s, out);
    if (r > 0) r = own_item(j, obj, name, out);
    return r > 0 ? jj_undefined_attr(j, obj, name, out) : r;
}

int jj_get_item(struct jj *j, struct jj_value obj, struct jj_value key, struct jj_value *out)
{
    int r = jj_check_defined(j, obj);
    if (r == 0) r = own_item(j, obj, key, out);
    if (r > 0 && key.type == JJ_STR) r = own_attr(j, obj, key.s, out);
    return r > 0 ? jj_undefined_attr(j, obj, key, out) : r;
}

struct slice {
    int64_t start, stop, step, n; /* n items from start */
};

static int slice_bound(struct jj *j, struct jj_value v, int64_t len, bool back, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (v.type == JJ_NONE) return 0;
    int r = jj_check_defined(j, v);
    if (r < 0) return r;
    if (!jj_is_integral(v)) return jj_error(j, "slice indices must be integers or None");
    int64_t i = jj_integral(v), low = back ? -1 : 0, high = back ? len - 1 : len;
    if (i < 0) i = i < -len ? low : i + len;
    *out = i > high ? high : i;
    return 0;
}

/* Like Python's slice.indices. */
static int slice_indices(struct jj *j, const struct jj_value part[3], int64_t len, struct slice *s)
{
    s->step = 1;
    int r = part[2].type == JJ_NONE ? 0 : jj_check_defined(j, part[2]);
    if (r == 0 && part[2].type != JJ_NONE) {
        if (!jj_is_integral(part[2])) return jj_error(j, "slice indices must be integers or None");
        s->step = jj_integral(part[2]);
        if (!s->step) return jj_error(j, "slice step cannot be zero");
        if (s->step < -INT64_MAX) s->step = -INT64_MAX;
    }
    bool back = s->step < 0;
    if (r == 0) r = slice_bound(j, part[0], len, back, back ? len - 1 : 0, &s->start);
    if (r == 0) r = slice_bound(j, part[1], len, back, back ? -1 : len, &s->stop);
    s->n = 0;
    if (!back && s->start < s->stop) s->n = (s->stop - s->start - 1) / s->step + 1;
    if (back && s->stop < s->start) s->n = (s->start - s->stop - 1) / -s->step + 1;
    return r;
}

static int slice_str(struct jj *j, const struct jj_str *str, const struct slice *s, struct jj_value *out)
{
    if (s->step == 1 || !s->n) {
        size_t from = s->n ? jj_str_offset(str, (size_t)s->start) : 0;
        size_t to = s->n ? jj_str_offset(str, (size_t)(s->start + s->n)) : 0;
        const struct jj_str *sub = jj_str_sub(j, str, from, to - from);
        *out = jj_string(sub);
        return sub ? jj_charge_bytes(j, str->chars == str->len ? 0 : to * 2) : j->err;
    }
    struct jj_seq *chars = jj_iterate(j, jj_string(str));
    if (!chars) return j->err;
    struct jj_sb sb = {.j = j};
    int r = 0;
    for (int64_t i = 0; i < s->n && r == 0; i++) r = jj_sb_str(&sb, chars->v[s->start + i * s->step].s);
    return r < 0 ? r : jj_sb_finish(&sb, out);
}

int jj_get_slice(struct jj *j, struct jj_value obj, const struct jj_value part[3], struct jj_value *out)
{
    int r = jj_check_defined(j, obj);
    if (r < 0) return r;
    bool sliced = obj.type == JJ_STR || (obj.type == JJ_SEQ && obj.q->kind <= JJ_RANGE);
    if (!sliced) return jj_error(j, "'%s' object cannot be sliced", jj_type_name(obj));
    struct slice s = {0};
    r = slice_indices(j, part, obj.type == JJ_STR ? (int64_t)obj.s->chars : (int64_t)obj.q->n, &s);
    if (r == 0) r = jj_charge(j, (uint64_t)s.n / 16);
    if (r < 0) return r;
    if (obj.type == JJ_STR) return slice_str(j, obj.s, &s, out);
    struct jj_seq *q = jj_seq_new(j, obj.q->kind == JJ_GROUP ? JJ_TUPLE : obj.q->kind, (size_t)s.n);
    if (!q) return j->err;
    for (int64_t i = 0; i < s.n; i++) q->v[q->n++] = obj.q->v[s.start + i * s.step];
    if (q->kind == JJ_RANGE) { /* values that do not fit into 64 bits are printed, never used */
        uint64_t start = (uint64_t)obj.q->start, step = (uint64_t)obj.q->step;
        q->start = (int64_t)(start + (uint64_t)s.start * step);
        q->step = (int64_t)(step * (uint64_t)s.step);
        q->stop = (int64_t)(start + (uint64_t)s.stop * step);
    }
    *out = jj_sequence(q);
    return 0;
}

/* One step of a path: an attribute, or an index if the text of the step is digits. */
static int path_step(struct jj *j, struct jj_value item, const struct jj_str *part, struct jj_value *out)
{
    struct jj_value key = jj_string(part);
    size_t digits = 0;
    int64_t i;
    while (digits < part->len && part->p[digits] >= '0' && part->p[digits] <= '9') digits++;
    if (part->len && digits == part->len && jj_parse_int(part, 10, &i) == 0) key = jj_int(i);
    return jj_get_item(j, item, key, out);
}

int jj_get_path(struct jj *j, struct jj_value item, struct jj_value path, struct jj_value fallback,
                struct jj_value *out)
{
    bool falls = fallback.type != JJ_ABSENT && fallback.type != JJ_NONE;
    *out = item;
    if (path.type == JJ_ABSENT || path.type == JJ_NONE) return 0;
    if (path.type != JJ_STR) {
        int r = jj_get_item(j, item, path, out);
        if (r == 0 && falls && out->type == JJ_UNDEFINED) *out = fallback;
        return r;
    }
    const struct jj_str *s = path.s;
    for (size_t from = 0; from <= s->len;) {
        const char *dot = s->len > from ? memchr(s->p + from, '.', s->len - from) : NULL;
        size_t to = dot ? (size_t)(dot - s->p) : s->len;
        const struct jj_str *part = jj_str_sub(j, s, from, to - from);
        int r = part ? path_step(j, *out, part, out) : j->err;
        if (r < 0) return r;
        if (falls && out->type == JJ_UNDEFINED) *out = fallback;
        from = to + 1;
    }
    return 0;
}
