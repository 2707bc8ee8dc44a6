/* SPDX-License-Identifier: MIT */
#include "daemon/text/template/jinja-value.h"
#include "daemon/text/template/jinja-str.h"

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
    if (v.q->v) rest->v = v.q->v + v.q->pos; /* the items of a generator are never changed */
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
