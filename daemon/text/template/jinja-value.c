/* SPDX-License-Identifier: MIT */
#include "daemon/text/template/jinja-value.h"
#include "daemon/text/template/jinja-str.h"
#include <math.h>

int jj_undefined(struct jj *j, const char *hint, struct jj_value *out)
{
    struct jj_undef *u = jj_alloc(j, sizeof(*u));
    if (!u) return j->err;
    u->hint = hint;
    *out = (struct jj_value){.type = JJ_UNDEFINED, .u = u};
    return 0;
}

int jj_undefined_name(struct jj *j, const struct jj_str *name, struct jj_value *out)
{
    struct jj_undef *u = jj_alloc(j, sizeof(*u));
    if (!u) return j->err;
    u->name = name;
    *out = (struct jj_value){.type = JJ_UNDEFINED, .u = u};
    return 0;
}

int jj_undefined_attr(struct jj *j, struct jj_value of, struct jj_value name, struct jj_value *out)
{
    struct jj_undef *u = jj_alloc(j, sizeof(*u));
    if (!u) return j->err;
    u->owner = jj_type_name(of);
    if (name.type == JJ_STR)
        u->name = name.s;
    else if (jj_is_integral(name))
        u->index = jj_integral(name);
    else
        u->hint = "no such element";
    *out = (struct jj_value){.type = JJ_UNDEFINED, .u = u};
    return 0;
}

int jj_fail_undefined(struct jj *j, struct jj_value v)
{
    const struct jj_undef *u = v.u;
    if (u->hint) return jj_error(j, "%s", u->hint);
    if (!u->owner)
        return jj_error(j, "'%.*s' is undefined", (int)(u->name->len > 200 ? 200 : u->name->len), u->name->p);
    if (u->name)
        return jj_error(j, "'%s object' has no attribute '%.*s'", u->owner,
                        (int)(u->name->len > 200 ? 200 : u->name->len), u->name->p);
    return jj_error(j, "%s object has no element %lld", u->owner, (long long)u->index);
}

int jj_check_defined(struct jj *j, struct jj_value v)
{
    return v.type == JJ_UNDEFINED ? jj_fail_undefined(j, v) : 0;
}

struct jj_seq *jj_seq_new(struct jj *j, enum jj_seq_kind kind, size_t cap)
{
    struct jj_seq *q = jj_alloc(j, sizeof(*q));
    if (!q) return NULL;
    q->kind = kind;
    if (cap) {
        q->v = jj_alloc_n(j, cap, sizeof(*q->v));
        if (!q->v) return NULL;
        q->cap = cap;
    }
    return q;
}

int jj_seq_push(struct jj *j, struct jj_seq *q, struct jj_value v)
{
    if (q->n == q->cap) {
        size_t cap = q->cap ? q->cap * 2 : 8, size = sizeof(*q->v);
        if (!q->v || !jj_arena_resize(&j->mem, q->v, q->cap * size, cap * size)) {
            struct jj_value *p = jj_alloc_n(j, cap, size);
            if (!p) return j->err;
            if (q->n) memcpy(p, q->v, q->n * size);
            q->v = p;
        }
        q->cap = cap;
    }
    q->v[q->n++] = v;
    return 0;
}

int jj_pair(struct jj *j, struct jj_value a, struct jj_value b, struct jj_value *out)
{
    struct jj_seq *q = jj_seq_new(j, JJ_TUPLE, 2);
    if (!q) return j->err;
    q->v[0] = a;
    q->v[1] = b;
    q->n = 2;
    *out = jj_sequence(q);
    return 0;
}

const char *jj_type_name(struct jj_value v)
{
    static const char *const seqs[] = {
        [JJ_LIST] = "list",      [JJ_TUPLE] = "tuple",        [JJ_GROUP] = "tuple",      [JJ_RANGE] = "range",
        [JJ_KEYS] = "dict_keys", [JJ_VALUES] = "dict_values", [JJ_ITEMS] = "dict_items", [JJ_GENERATOR] = "generator",
    };
    static const char *const types[] = {
        [JJ_ABSENT] = "nothing",
        [JJ_UNDEFINED] = "Undefined",
        [JJ_NONE] = "NoneType",
        [JJ_BOOL] = "bool",
        [JJ_INT] = "int",
        [JJ_FLOAT] = "float",
        [JJ_STR] = "str",
        [JJ_DICT] = "dict",
        [JJ_NAMESPACE] = "Namespace",
        [JJ_FUNC] = "function",
        [JJ_LOOP] = "LoopContext",
        [JJ_CYCLER] = "Cycler",
        [JJ_JOINER] = "Joiner",
    };
    return v.type == JJ_SEQ ? seqs[v.q->kind] : types[v.type];
}

bool jj_truth(struct jj_value v)
{
    switch (v.type) {
    case JJ_ABSENT:
    case JJ_UNDEFINED:
    case JJ_NONE:
        return false;
    case JJ_BOOL:
        return v.b;
    case JJ_INT:
        return v.i != 0;
    case JJ_FLOAT:
        return v.f != 0;
    case JJ_STR:
        return v.s->len != 0;
    case JJ_SEQ:
        return v.q->kind == JJ_GENERATOR || v.q->n != 0;
    case JJ_DICT:
        return v.d->n != 0;
    default:
        return true;
    }
}

static int equal_seq(struct jj *j, const struct jj_seq *a, const struct jj_seq *b, bool *out)
{
    bool tuples = (a->kind == JJ_TUPLE || a->kind == JJ_GROUP) && (b->kind == JJ_TUPLE || b->kind == JJ_GROUP);
    bool keys = a->kind == JJ_KEYS && b->kind == JJ_KEYS;
    *out = a == b;
    if (*out || (a->kind != b->kind && !tuples) || a->n != b->n) return 0;
    if (a->kind == JJ_GENERATOR || (a->kind > JJ_RANGE && !keys)) return 0;
    *out = true;
    for (size_t i = 0; i < a->n && *out; i++) {
        int r = jj_equal(j, a->v[i], b->v[i], out);
        if (r < 0) return r;
    }
    return 0;
}

static int equal_dict(struct jj *j, const struct jj_dict *a, const struct jj_dict *b, bool *out)
{
    *out = a == b;
    if (*out || a->n != b->n) return 0;
    for (size_t i = 0; i < a->n; i++) {
        struct jj_value other;
        int r = jj_dict_get(j, b, a->e[i].k, &other);
        if (r <= 0) return r;
        r = jj_equal(j, a->e[i].v, other, out);
        if (r < 0 || !*out) return r;
    }
    *out = true;
    return 0;
}

static bool equal_numbers(struct jj_value a, struct jj_value b)
{
    if (jj_is_integral(a) && jj_is_integral(b)) return jj_integral(a) == jj_integral(b);
    long double x = a.type == JJ_FLOAT ? (long double)a.f : (long double)jj_integral(a);
    long double y = b.type == JJ_FLOAT ? (long double)b.f : (long double)jj_integral(b);
    return x == y;
}

int jj_equal(struct jj *j, struct jj_value a, struct jj_value b, bool *out)
{
    *out = false;
    int r = jj_enter(j);
    if (r < 0) return r;
    if (jj_is_number(a) && jj_is_number(b)) {
        *out = equal_numbers(a, b);
    } else if (a.type != b.type) {
        *out = false;
    } else if (a.type == JJ_STR) {
        r = jj_charge_bytes(j, a.s->len);
        *out = jj_str_eq(a.s, b.s);
    } else if (a.type == JJ_SEQ) {
        r = equal_seq(j, a.q, b.q, out);
    } else if (a.type == JJ_DICT) {
        r = equal_dict(j, a.d, b.d, out);
    } else {
        *out = a.type == JJ_NONE || a.type == JJ_UNDEFINED || (const void *)a.d == (const void *)b.d;
    }
    jj_leave(j);
    return r;
}

static int compare_numbers(struct jj_value a, struct jj_value b)
{
    if (jj_is_integral(a) && jj_is_integral(b))
        return jj_integral(a) < jj_integral(b) ? -1 : jj_integral(a) > jj_integral(b);
    long double x = a.type == JJ_FLOAT ? (long double)a.f : (long double)jj_integral(a);
    long double y = b.type == JJ_FLOAT ? (long double)b.f : (long double)jj_integral(b);
    return isunordered(x, y) ? 2 : x < y ? -1 : x > y;
}

static int compare_seq(struct jj *j, const char *op, const struct jj_seq *a, const struct jj_seq *b, int *out)
{
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        bool eq;
        int r = jj_equal(j, a->v[i], b->v[i], &eq);
        if (r < 0) return r;
        if (!eq) return jj_compare(j, op, a->v[i], b->v[i], out);
    }
    *out = a->n < b->n ? -1 : a->n > b->n;
    return 0;
}

int jj_compare(struct jj *j, const char *op, struct jj_value a, struct jj_value b, int *out)
{
    int r = jj_check_defined(j, a);
    if (r == 0) r = jj_check_defined(j, b);
    if (r == 0) r = jj_enter(j);
    if (r < 0) return r;
    if (jj_is_number(a) && jj_is_number(b)) {
        *out = compare_numbers(a, b);
    } else if (a.type == JJ_STR && b.type == JJ_STR) {
        *out = jj_str_cmp(a.s, b.s);
        r = jj_charge_bytes(j, a.s->len);
    } else if ((jj_is_list(a) && jj_is_list(b)) || (jj_is_tuple(a) && jj_is_tuple(b))) {
        r = compare_seq(j, op, a.q, b.q, out);
    } else {
        r = jj_error(j, "'%s' not supported between instances of '%s' and '%s'", op, jj_type_name(a), jj_type_name(b));
    }
    jj_leave(j);
    return r;
}

int jj_contains(struct jj *j, struct jj_value of, struct jj_value x, bool *out)
{
    struct jj_value ignored;
    *out = false;
    if (of.type == JJ_STR) {
        if (x.type == JJ_UNDEFINED) return jj_fail_undefined(j, x);
        if (x.type != JJ_STR)
            return jj_error(j, "'in <string>' requires string as left operand, not %s", jj_type_name(x));
        *out = !x.s->len || memmem(of.s->p, of.s->len, x.s->p, x.s->len);
        return jj_charge_bytes(j, of.s->len);
    }
    if (of.type == JJ_DICT) {
        int r = jj_dict_get(j, of.d, x, &ignored);
        *out = r > 0;
        return r < 0 ? r : 0;
    }
    if (of.type != JJ_SEQ && of.type != JJ_UNDEFINED && of.type != JJ_LOOP)
        return jj_error(j, "argument of type '%s' is not iterable", jj_type_name(of));
    struct jj_seq *q = jj_iterate(j, of);
    if (!q) return j->err;
    for (size_t i = 0; i < q->n && !*out; i++) {
        int r = jj_equal(j, q->v[i], x, out);
        if (r < 0) return r;
    }
    return 0;
}

static struct jj_seq *iterate_chars(struct jj *j, const struct jj_str *s)
{
    struct jj_seq *q = jj_seq_new(j, JJ_LIST, s->chars);
    if (!q) return NULL;
    for (size_t off = 0; off < s->len;) {
        uint32_t c;
        size_t n = jj_char(s->p + off, &c);
        const struct jj_str *one = jj_str_sub(j, s, off, n);
        if (!one) return NULL;
        q->v[q->n++] = jj_string(one);
        off += n;
    }
    return q;
}

struct jj_seq *jj_iterate(struct jj *j, struct jj_value v)
{
    switch (v.type) {
    case JJ_UNDEFINED:
        return jj_seq_new(j, JJ_LIST, 0);
    case JJ_STR: {
        const struct jj_str *plain = jj_str_safe(j, v.s, false); /* the characters of Markup are not Markup */
        return !plain || jj_charge(j, plain->chars) < 0 ? NULL : iterate_chars(j, plain);
    }
    case JJ_DICT:
        return jj_dict_view(j, v.d, JJ_KEYS);
    case JJ_SEQ:
        break;
    default:
        jj_error(j, "'%s' object is not iterable", jj_type_name(v));
        return NULL;
    }
    if (v.q->kind != JJ_GENERATOR) return v.q;
    struct jj_seq *rest = jj_seq_new(j, JJ_LIST, 0);
    if (!rest) return NULL;
    rest->v = v.q->v + v.q->pos; /* the items of a generator are never changed */
    rest->n = rest->cap = v.q->n - v.q->pos;
    v.q->pos = v.q->n;
    return rest;
}

int jj_length(struct jj *j, struct jj_value v, int64_t *out)
{
    if (v.type == JJ_UNDEFINED)
        *out = 0;
    else if (v.type == JJ_STR)
        *out = (int64_t)v.s->chars;
    else if (v.type == JJ_DICT)
        *out = (int64_t)v.d->n;
    else if (v.type == JJ_SEQ && v.q->kind != JJ_GENERATOR)
        *out = (int64_t)v.q->n;
    else
        return jj_error(j, "object of type '%s' has no len()", jj_type_name(v));
    return 0;
}

static int from_object(struct jj *j, const json_t *json, bool markup, struct jj_value *out)
{
    struct jj_dict *d = jj_dict_new(j);
    if (!d) return j->err;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)json, key, v)
    {
        struct jj_value item;
        const struct jj_str *k = jj_str_view(j, key, strlen(key), markup);
        int r = k ? jj_from_json(j, v, markup, &item) : j->err;
        if (r == 0) r = jj_dict_set(j, d, jj_string(k), item);
        if (r < 0) return r;
    }
    *out = jj_mapping(d);
    return 0;
}

static int from_array(struct jj *j, const json_t *json, bool markup, struct jj_value *out)
{
    struct jj_seq *q = jj_seq_new(j, JJ_LIST, json_array_size(json));
    if (!q) return j->err;
    for (size_t i = 0; i < json_array_size(json); i++) {
        int r = jj_from_json(j, json_array_get(json, i), markup, &q->v[i]);
        if (r < 0) return r;
        q->n++;
    }
    *out = jj_sequence(q);
    return 0;
}

int jj_from_json(struct jj *j, const json_t *json, bool markup, struct jj_value *out)
{
    int r = jj_enter(j);
    if (r < 0) return r;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        r = from_object(j, json, markup, out);
        break;
    case JSON_ARRAY:
        r = from_array(j, json, markup, out);
        break;
    case JSON_STRING: {
        const struct jj_str *s = jj_str_view(j, json_string_value(json), json_string_length(json), markup);
        r = s ? 0 : j->err;
        *out = jj_string(s);
        break;
    }
    case JSON_INTEGER:
        *out = jj_int(json_integer_value(json));
        break;
    case JSON_REAL:
        *out = jj_float(json_real_value(json));
        break;
    case JSON_NULL:
        *out = jj_none();
        break;
    default:
        *out = jj_bool(json_is_true(json));
        break;
    }
    if (r == 0) out->data = !markup;
    jj_leave(j);
    return r;
}
