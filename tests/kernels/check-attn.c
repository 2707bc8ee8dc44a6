/* SPDX-License-Identifier: MIT */
/* Attention, its merge, and the KV layout. */
#include "tests/kernels/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BLOCKS (KV_SEGMENT / KV_BLOCK)
#define MAX_Q      110 /* more than are transposed at a time where dim is 256 */
#define FEW_Q      24

struct kase {
    struct kern_attn a;
    const float *q[MAX_Q];
    uint32_t begin[MAX_Q], end[MAX_Q];
    float slope[MAX_Q]; /* of ALiBi */
    int32_t at[MAX_Q];
    const void *k[MAX_BLOCKS], *v[MAX_BLOCKS], *soon[3];
    float *tokens; /* [n_blocks * 32][2][dim] K and V as they were stored */
};

/* WINDOW: anything; CAUSAL: consecutive tokens of several heads; SINGLE: the same end for all. */
enum shape { WINDOW, CAUSAL, SINGLE, SHAPES };

static void ranges(struct kase *k, size_t len, enum shape shape)
{
    uint32_t heads = 1 + rng_below(4), n = (uint32_t)k->a.n_q;
    uint32_t first = rng_below((uint32_t)len);
    for (uint32_t i = 0; i < n; i++) {
        k->begin[i] = 0;
        k->end[i] = (uint32_t)len;
        if (shape == CAUSAL) {
            k->end[i] = first + 1 + i / heads;
            if (k->end[i] > len) k->end[i] = (uint32_t)len;
        } else if (shape == WINDOW) {
            k->begin[i] = rng_below((uint32_t)len + 8);
            k->end[i] = rng_below((uint32_t)len + 1);
            if (rng() & 1) k->begin[i] = k->end[i] > 3 ? k->end[i] - 1 - rng_below(k->end[i] - 1) : 0;
        }
    }
}

/* Round x[dim] in place as storing it does, by the description in kernels.h alone. */
static void round_kv(enum kern_kv kv, float *x, size_t dim)
{
    for (size_t d = 0; kv == KERN_KV_F16 && d < dim; d++) x[d] = kern_f16_to_f32(kern_f32_to_f16(x[d]));
    for (size_t g = 0; kv == KERN_KV_Q8 && g < dim; g += 32) {
        size_t end = g + 32 < dim ? g + 32 : dim;
        double amax = 0;
        for (size_t d = g; d < end; d++) amax = fmax(amax, fabs((double)x[d]));
        double scale = fmin((double)kern_f16_to_f32(kern_f32_to_f16((float)(amax / 127))), 65504);
        for (size_t d = g; d < end; d++)
            x[d] = scale == 0 ? 0 : (float)(scale * fmax(fmin(rint((double)(x[d] / (float)scale)), 127), -127));
    }
}

/* Store the tokens that somebody sees; every other key is NaN (q8: the scales are). */
static void fill_kv(struct kase *c, const struct kernels *t, enum kern_kv kv)
{
    size_t dim = c->a.dim, bytes = kern_kv_bytes(kv, dim), n = c->a.n_blocks * KV_BLOCK;
    c->tokens = malloc(n * 2 * dim * sizeof(float));
    assert_non_null(c->tokens);
    for (size_t i = 0; i < n * 2 * dim; i++) c->tokens[i] = rng_float();
    for (size_t b = 0; b < c->a.n_blocks; b++) {
        void *k = mem(bytes), *v = mem(bytes);
        memset(k, 0xff, bytes);
        memset(v, 0xff, bytes);
        for (unsigned slot = 0; slot < KV_BLOCK; slot++) {
            size_t pos = b * KV_BLOCK + slot;
            bool seen = false;
            for (size_t i = 0; i < c->a.n_q; i++) seen |= pos >= c->begin[i] && pos < c->end[i];
            float *tok = c->tokens + pos * 2 * dim;
            if (seen) t->kv_store[kv](k, v, slot, tok, tok + dim, dim);
            round_kv(kv, tok, dim);
            round_kv(kv, tok + dim, dim);
        }
        c->k[b] = k;
        c->v[b] = v;
    }
}

static void check_naive(const struct kase *c, const float *m, const float *l, const float *o)
{
    size_t dim = c->a.dim;
    for (size_t i = 0; i < c->a.n_q; i++) {
        double s[KV_SEGMENT], max = -INFINITY, sum = 0;
        for (size_t j = c->begin[i]; j < c->end[i]; j++) {
            s[j] = 0;
            for (size_t d = 0; d < dim; d++) s[j] += (double)c->q[i][d] * (double)c->tokens[j * 2 * dim + d];
            s[j] *= (double)c->a.scale;
            if (c->a.cap > 0) s[j] = (double)c->a.cap * tanh(s[j] / (double)c->a.cap);
            if (c->a.slope) s[j] -= (double)c->slope[i] * fabs((double)j - c->at[i]);
            max = fmax(max, s[j]);
        }
        for (size_t j = c->begin[i]; j < c->end[i]; j++) sum += s[j] = exp(s[j] - max);
        if (!(sum > 0)) {
            assert_true(m[i] == -INFINITY && l[i] == 0);
            for (size_t d = 0; d < dim; d++) assert_true(o[i * dim + d] == 0);
            continue;
        }
        near_double((double)m[i], max, 1e-4, "attn max of query %zu", i);
        near_double((double)l[i], sum, 1e-4 * sum, "attn sum of query %zu", i);
        for (size_t d = 0; d < dim; d++) {
            double v = 0;
            for (size_t j = c->begin[i]; j < c->end[i]; j++) v += s[j] / sum * (double)c->tokens[j * 2 * dim + dim + d];
            near_double((double)(o[i * dim + d] / l[i]), v, 2e-5, "attn query %zu dim %zu", i, d);
        }
    }
}

/* ALiBi's slope and position of each query: one of those in the segment, before it or behind it. */
static void incline(struct kase *k)
{
    for (size_t i = 0; i < k->a.n_q; i++) {
        k->slope[i] = 1.0f / (float)(1 + rng_below(200));
        k->at[i] = (int32_t)rng_below(3 * KV_SEGMENT) - KV_SEGMENT;
    }
    k->a.slope = k->slope;
    k->a.at = k->at;
}

/* The segment in two calls, the second for each query alone. */
static void in_two(const struct kernels *t, enum kern_kv kv, const struct kern_attn *a)
{
    const size_t cut = rng_below((uint32_t)a->n_blocks + 1);
    struct kern_attn x = *a;
    x.n_blocks = cut;
    t->attn[kv](&x);
    for (size_t i = 0; i < a->n_q; i++) {
        const uint32_t from = (uint32_t)(cut * KV_BLOCK), begin = a->begin[i] > from ? a->begin[i] - from : 0;
        const uint32_t end = a->end[i] > from ? a->end[i] - from : 0;
        const int32_t at = a->at ? a->at[i] - (int32_t)from : 0;
        x = (struct kern_attn){.q = a->q + i, .begin = &begin, .end = &end, .n_q = 1, .dim = a->dim};
        x.k = a->k + cut, x.v = a->v + cut, x.n_blocks = a->n_blocks - cut;
        x.scale = a->scale, x.cap = a->cap, x.more = true;
        if (a->slope) x.slope = a->slope + i, x.at = &at;
        x.m = a->m + i, x.l = a->l + i, x.o = a->o + i * a->dim;
        t->attn[kv](&x);
    }
}

/* @size multiplies the scale; below 0, all scores are zeros with a minus, and m must not have it. @cap below 0: none,
 * but ALiBi. */
static void capped(struct check *c, size_t dim, size_t n_q, size_t len, enum shape shape, float size, float cap)
{
    enum kern_kv kv = (enum kern_kv)c->type;
    struct kase k = {0};
    k.a = (struct kern_attn){.q = k.q, .begin = k.begin, .end = k.end, .n_q = n_q, .dim = dim, .k = k.k, .v = k.v};
    k.a.n_blocks = (len + KV_BLOCK - 1) / KV_BLOCK;
    k.a.scale = size / sqrtf((float)dim);
    k.a.cap = cap < 0 ? 0 : cap;
    if (cap < 0) incline(&k);
    ranges(&k, len, shape);
    fill_kv(&k, c->table, kv);
    for (size_t i = 0; i < n_q; i++) {
        float *q = mem(dim * sizeof(*q));
        for (size_t d = 0; d < dim; d++) q[d] = size < 0 ? 0 : rng_float();
        k.q[i] = q;
    }
    for (unsigned i = 0; i < 3; i++) k.soon[i] = k.k[rng_below((uint32_t)k.a.n_blocks)];
    k.a.soon = k.soon, k.a.n_soon = rng_below(4);
    struct kern_attn want = k.a, got = k.a;
    want.m = mem(n_q * 4), want.l = mem(n_q * 4), want.o = mem(n_q * dim * 4);
    got.m = mem(n_q * 4), got.l = mem(n_q * 4), got.o = mem(n_q * dim * 4);
    c->ref->attn[kv](&want);
    if (rng() & 1)
        in_two(c->table, kv, &got);
    else
        c->table->attn[kv](&got);
    same_floats(got.m, want.m, n_q, "attn m: dim %zu n_q %zu len %zu shape %d", dim, n_q, len, shape);
    same_floats(got.l, want.l, n_q, "attn l: dim %zu n_q %zu len %zu shape %d", dim, n_q, len, shape);
    same_floats(got.o, want.o, n_q * dim, "attn o: dim %zu n_q %zu len %zu shape %d", dim, n_q, len, shape);
    if (c->table == c->ref && size < 2) check_naive(&k, got.m, got.l, got.o);
    free(k.tokens);
    mem_reset();
}

static void one(struct check *c, size_t dim, size_t n_q, size_t len, enum shape shape, float size)
{
    capped(c, dim, n_q, len, shape, size, 0);
}

static struct kern_attn outputs(const struct kern_attn *a, size_t width)
{
    struct kern_attn out = *a;
    out.m = mem(a->n_q * 4), out.l = mem(a->n_q * 4), out.o = mem(a->n_q * width * 4);
    return out;
}

/* Values that are the first @v_dim dims of the keys: the bits of a V that holds the same (as many of its dims). */
static void shared(struct check *c, size_t dim, size_t v_dim, size_t n_q, size_t len, enum shape shape)
{
    const enum kern_kv kv = (enum kern_kv)c->type;
    struct kase k = {0};
    k.a = (struct kern_attn){.q = k.q, .begin = k.begin, .end = k.end, .n_q = n_q, .dim = dim, .k = k.k, .v = k.v};
    k.a.n_blocks = (len + KV_BLOCK - 1) / KV_BLOCK;
    k.a.scale = 1 / sqrtf((float)dim);
    ranges(&k, len, shape);
    fill_kv(&k, c->table, kv);
    const size_t bytes = kern_kv_bytes(kv, dim);
    float *x = mem(dim * sizeof(*x));
    for (size_t b = 0; b < k.a.n_blocks; b++) {
        void *keys = mem(bytes), *both = mem(bytes), *values = mem(bytes);
        for (unsigned slot = 0; slot < KV_BLOCK; slot++) {
            for (size_t d = 0; d < dim; d++) x[d] = rng_float();
            c->table->kv_store[kv](keys, NULL, slot, x, NULL, dim);
            c->ref->kv_store[kv](both, values, slot, x, x, dim);
        }
        same_bytes(keys, both, bytes, "kv_store of K alone");
        k.k[b] = keys, k.v[b] = values;
    }
    for (size_t i = 0; i < n_q; i++) {
        float *q = mem(dim * sizeof(*q));
        for (size_t d = 0; d < dim; d++) q[d] = rng_float();
        k.q[i] = q;
    }
    struct kern_attn apart = outputs(&k.a, dim);
    c->ref->attn[kv](&apart);
    k.a.v = NULL, k.a.v_dim = v_dim;
    struct kern_attn want = outputs(&k.a, v_dim), got = outputs(&k.a, v_dim);
    c->ref->attn[kv](&want);
    c->table->attn[kv](&got);
    same_floats(got.m, apart.m, n_q, "shared attn m: dim %zu of %zu n_q %zu", v_dim, dim, n_q);
    same_floats(got.l, apart.l, n_q, "shared attn l: dim %zu of %zu n_q %zu", v_dim, dim, n_q);
    same_floats(got.o, want.o, n_q * v_dim, "shared attn o: dim %zu of %zu n_q %zu", v_dim, dim, n_q);
    for (size_t i = 0; i < n_q; i++)
        same_floats(got.o + i * v_dim, apart.o + i * dim, v_dim, "shared attn o %zu: dim %zu of %zu", i, v_dim, dim);
    free(k.tokens);
    mem_reset();
}

void check_shared_attn(void **state)
{
    CHECK_BEGIN(state);
    for (size_t dim = 1; dim <= 100; dim += 3)
        shared(c, dim, 1 + rng_below((uint32_t)dim), 1 + rng_below(FEW_Q), 1 + rng_below(100),
               (enum shape)rng_below(SHAPES));
    for (size_t n_q = 1; n_q <= FEW_Q; n_q += 5) shared(c, 576, 512, n_q, 1 + rng_below(100), CAUSAL);
    shared(c, KERN_SHARED_DIM, KERN_SHARED_DIM, 9, 40, WINDOW);
}

void check_attn(void **state)
{
    CHECK_BEGIN(state);
    for (size_t dim = 8; dim <= 256; dim += 8)
        for (int s = 0; s < SHAPES; s++)
            one(c, dim, 1 + rng_below(FEW_Q), 1 + rng_below(200), (enum shape)s, rng_below(3) ? 1 : 30);
    for (size_t dim = 1; dim <= 70; dim += 3) one(c, dim, 1 + rng_below(9), 1 + rng_below(100), WINDOW, 1);
    for (size_t len = 1; len <= 70; len++) one(c, 24, 1 + rng_below(9), len, (enum shape)rng_below(SHAPES), 1);
    for (size_t n_q = 1; n_q <= 9; n_q++) one(c, 16, n_q, 40, WINDOW, -1);
    for (size_t n_q = 1; n_q <= FEW_Q; n_q++)
        capped(c, 8 * n_q, n_q, 1 + rng_below(100), (enum shape)rng_below(SHAPES), rng_below(2) ? 1 : 30,
               n_q % 2 ? 0.75f : 50);
    for (size_t n_q = 1; n_q <= FEW_Q; n_q++)
        capped(c, 8 * n_q, n_q, 1 + rng_below(KV_SEGMENT), (enum shape)rng_below(SHAPES), rng_below(2) ? 1 : 30, -1);
    for (size_t n_q = 1; n_q <= FEW_Q; n_q++)
        for (int s = 0; s < SHAPES; s++) one(c, 64, n_q, 1 + rng_below(KV_SEGMENT), (enum shape)s, 1);
    for (size_t n_q = FEW_Q; n_q <= MAX_Q; n_q += 1 + rng_below(8)) {
        const size_t dim = 1 + rng_below(100);
        one(c, dim, n_q, 1 + rng_below(200), (enum shape)rng_below(SHAPES), rng_below(3) ? 1 : 30);
        capped(c, dim, n_q, 1 + rng_below(100), (enum shape)rng_below(SHAPES), 30, rng_below(2) ? -1 : 50);
    }
    for (int s = 0; s < SHAPES; s++) one(c, 256, MAX_Q, 100, (enum shape)s, 1);
    one(c, 16, MAX_Q, 40, WINDOW, -1);
}

void check_attn_merge(void **state)
{
    CHECK_BEGIN(state);
    for (size_t dim = 1; dim <= 130; dim++)
        for (size_t n = 1; n <= 6; n++) {
            size_t ld_m = 1 + rng_below(3), ld_o = dim + rng_below(5);
            float *m = mem(((n - 1) * ld_m + 1) * 4), *l = mem(((n - 1) * ld_m + 1) * 4);
            float *o = mem(((n - 1) * ld_o + dim) * 4);
            size_t sure = rng_below((uint32_t)n);
            double top = -INFINITY, sum = 0;
            for (size_t i = 0; i < n; i++) {
                bool none = i != sure && rng_below(3) == 0;
                m[i * ld_m] = none ? -INFINITY : rng_float() * 4;
                l[i * ld_m] = none ? 0 : 1 + fabsf(rng_float());
                for (size_t d = 0; d < dim; d++) o[i * ld_o + d] = none ? 0 : rng_float();
                top = fmax(top, (double)m[i * ld_m]);
            }
            float *want = mem(dim * 4), *got = mem(dim * 4);
            c->ref->attn_merge(want, m, l, ld_m, o, ld_o, n, dim);
            c->table->attn_merge(got, m, l, ld_m, o, ld_o, n, dim);
            same_floats(got, want, dim, "attn_merge dim %zu segments %zu", dim, n);
            for (size_t i = 0; i < n; i++) sum += (double)l[i * ld_m] * exp((double)m[i * ld_m] - top);
            for (size_t d = 0; d < dim; d++) {
                double v = 0;
                for (size_t i = 0; i < n; i++) v += (double)o[i * ld_o + d] * exp((double)m[i * ld_m] - top) / sum;
                near_double((double)got[d], v, 1e-5, "attn_merge dim %zu segments %zu value %zu", dim, n, d);
            }
            mem_reset();
        }
}
