/* SPDX-License-Identifier: MIT */
/* Dictionaries: entries in order of insertion, with a hash index once there are many. */
#include "daemon/text/template/jinja-str.h"
#include <errno.h>
#include <math.h>

#define SMALL 8

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t hash_bytes(const char *p, size_t n)
{
    uint64_t h = n, w;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&w, p, 8);
        h = mix(h, w);
    }
    w = 0;
    memcpy(&w, p, n);
    return mix(h, w);
}

static int hashable(struct jj *j, struct jj_value v, int depth)
{
    if (v.type == JJ_STR) return jj_charge_bytes(j, v.s->len) < 0 ? j->err : 1;
    if (v.type != JJ_SEQ) return v.type != JJ_DICT;
    if (!jj_is_tuple(v)) return v.q->kind == JJ_RANGE || v.q->kind == JJ_GENERATOR;
    /* A tuple (t, t) of such tuples, and so on, is short but has exponentially many parts. */
    int r = jj_charge(j, v.q->n) < 0 ? j->err : 1;
    for (size_t i = 0; i < v.q->n && r > 0; i++) r = depth ? hashable(j, v.q->v[i], depth - 1) : 0;
    return r;
}

int jj_hashable(struct jj *j, struct jj_value v)
{
    return hashable(j, v, 32); /* deeper nested tuples are no keys, which bounds the stack of hash() */
}

/* Equal values have equal hashes: 1 == 1.0 == True. */
static uint64_t hash(struct jj_value v)
{
    switch (v.type) {
    case JJ_STR:
        return hash_bytes(v.s->p, v.s->len);
    case JJ_BOOL:
    case JJ_INT:
        return mix(1, (uint64_t)jj_integral(v));
    case JJ_FLOAT: {
        if (v.f == floor(v.f) && fabs(v.f) < 0x1p63) return mix(1, (uint64_t)(int64_t)v.f);
        uint64_t w;
        memcpy(&w, &v.f, sizeof(w));
        return mix(2, w);
    }
    case JJ_SEQ: {
        uint64_t h = 3;
        if (jj_is_tuple(v))
            for (size_t i = 0; i < v.q->n; i++) h = mix(h, hash(v.q->v[i]));
        return h;
    }
    default:
        return mix(4, v.type);
    }
}

struct jj_dict *jj_dict_new(struct jj *j)
{
    return jj_alloc(j, sizeof(struct jj_dict));
}

/* The index of the entry of @k, or d->n. */
static int find(struct jj *j, const struct jj_dict *d, struct jj_value k, uint64_t h, size_t *at)
{
    *at = d->n;
    size_t mask = d->n_index - 1, slot = h & mask, n = d->index ? d->n_index : d->n;
    for (size_t i = 0; i < n; i++) {
        size_t e = i;
        if (d->index) {
            e = d->index[slot];
            if (e-- == 0) return 0;
            slot = (slot + 1) & mask;
        }
        int r = i ? jj_charge(j, 1) : 0; /* charge for colliding keys */
        if (r < 0) return r;
        if (d->e[e].hash != h) continue;
        bool eq;
        r = jj_equal(j, d->e[e].k, k, &eq);
        if (r < 0) return r;
        if (eq) {
            *at = e;
            return 0;
        }
    }
    return 0;
}

static int check_key(struct jj *j, struct jj_value k)
{
    int r = jj_hashable(j, k);
    if (r) return r < 0 ? r : 0;
    return jj_error(j, "unhashable type: '%s'", jj_type_name(k));
}

int jj_dict_get(struct jj *j, const struct jj_dict *d, struct jj_value k, struct jj_value *out)
{
    size_t at;
    int r = check_key(j, k);
    if (r == 0) r = find(j, d, k, hash(k), &at);
    if (r < 0) return r;
    if (at == d->n) return 0;
    *out = d->e[at].v;
    return 1;
}

int jj_dict_get_str(struct jj *j, const struct jj_dict *d, const struct jj_str *k, struct jj_value *out)
{
    return jj_dict_get(j, d, jj_string(k), out);
}

static void put_index(struct jj_dict *d, size_t entry)
{
    size_t mask = d->n_index - 1, slot = d->e[entry].hash & mask;
    while (d->index[slot]) slot = (slot + 1) & mask;
    d->index[slot] = (uint32_t)(entry + 1);
}

static int grow(struct jj *j, struct jj_dict *d)
{
    size_t cap = d->cap ? d->cap * 2 : SMALL / 2;
    struct jj_entry *e = jj_alloc_n(j, cap, sizeof(*e));
    if (!e) return j->err;
    if (d->n) memcpy(e, d->e, d->n * sizeof(*e));
    d->e = e;
    d->cap = cap;
    if (cap <= SMALL) return 0;
    if (cap > UINT32_MAX / 4) return jj_oom(j, -E2BIG);
    d->index = jj_alloc_n(j, cap * 2, sizeof(*d->index));
    if (!d->index) return j->err;
    d->n_index = cap * 2;
    for (size_t i = 0; i < d->n; i++) put_index(d, i);
    return 0;
}

int jj_dict_set(struct jj *j, struct jj_dict *d, struct jj_value k, struct jj_value v)
{
    size_t at;
    uint64_t h = 0;
    int r = check_key(j, k);
    if (r == 0) {
        h = hash(k);
        r = find(j, d, k, h, &at);
    }
    if (r < 0) return r;
    if (at < d->n) {
        d->e[at].v = v;
        return 0;
    }
    if (d->n == d->cap) {
        r = grow(j, d);
        if (r < 0) return r;
    }
    d->e[d->n++] = (struct jj_entry){k, v, h};
    if (d->index) put_index(d, d->n - 1);
    return 0;
}

int jj_dict_del(struct jj *j, struct jj_dict *d, struct jj_value k, struct jj_value *out)
{
    size_t at;
    int r = check_key(j, k);
    if (r == 0) r = find(j, d, k, hash(k), &at);
    if (r < 0) return r;
    if (at == d->n) return 0;
    *out = d->e[at].v;
    d->n--;
    memmove(d->e + at, d->e + at + 1, (d->n - at) * sizeof(*d->e));
    if (d->index) {
        memset(d->index, 0, d->n_index * sizeof(*d->index));
        for (size_t i = 0; i < d->n; i++) put_index(d, i);
    }
    r = jj_charge(j, d->n / 16);
    return r < 0 ? r : 1;
}

struct jj_seq *jj_dict_view(struct jj *j, const struct jj_dict *d, enum jj_seq_kind kind)
{
    struct jj_seq *q = jj_charge(j, d->n / 4) < 0 ? NULL : jj_seq_new(j, kind, d->n);
    if (!q) return NULL;
    for (size_t i = 0; i < d->n; i++) {
        if (kind == JJ_ITEMS) {
            if (jj_pair(j, d->e[i].k, d->e[i].v, &q->v[i]) < 0) return NULL;
        } else {
            q->v[i] = kind == JJ_KEYS ? d->e[i].k : d->e[i].v;
        }
        q->n++;
    }
    return q;
}
