/* SPDX-License-Identifier: MIT */
#pragma once
/* The product p·v of one block, for attn.c: a lane is a dim. Keys that not all queries see are added query by query. */
#include "kernels/x86/attn-widen.h"

#ifdef __AVX512F__
#define PV_Q 4 /* queries and */
#define PV_D 4 /* vectors of dims that are added together */
#else
#define PV_Q 2
#define PV_D 2
#endif

/* A block of values, and how some consecutive queries see it: query i is i floats of @p times @query further, key j j
 * times @key. */
struct values {
    const void *v;
    enum kern_kv kv;
    size_t dim;
    const float *p;
    size_t query, key;
    const unsigned *lo, *hi; /* visible keys of each query */
    float *o;                /* [dim] of each query */
    const void *soon;        /* values that are read soon, and prefetched; NULL: none */
};

V size_t value_bytes(enum kern_kv kv)
{
    return kv == KERN_KV_F32 ? 4 : kv == KERN_KV_F16 ? 2 : 1;
}

V void prefetch_values(const struct values *y, size_t at, size_t n)
{
    const size_t bytes = value_bytes(y->kv);
    UNROLL
    for (size_t i = 0; i < n * bytes; i += 64) _mm_prefetch((const char *)y->soon + at * bytes + i, _MM_HINT_T0);
}

/* Keys of a block. */
struct keys {
    unsigned lo, hi;
};

/* o_i += p_ij v_j over the keys of @k, for queries i0 … i0 + nq - 1 and nd vectors of dims from d0. The last vector has
 * @last lanes, the others 16. */
V void add_values(unsigned nq, unsigned nd, const struct values *y, unsigned i0, struct keys k, size_t d0, size_t last)
{
    const enum kern_kv kv = y->kv;
    const void *v = y->v;
    const size_t dim = y->dim;
    float *o = y->o + i0 * dim + d0;
    v16 acc[PV_Q][PV_D];
    UNROLL
    for (unsigned i = 0; i < nq; i++) {
        UNROLL
        for (unsigned d = 0; d < nd; d++)
            acc[i][d] =
                last < 16 && d == nd - 1 ? v16_load_n(o + i * dim + 16 * d, last) : v16_load(o + i * dim + 16 * d);
    }
    for (unsigned j = k.lo; j < k.hi; j++) {
        v16 x[PV_D];
        if (y->soon) prefetch_values(y, j * dim + d0, 16 * nd);
        UNROLL
        for (unsigned d = 0; d < nd; d++) {
            size_t at = j * dim + d0 + 16 * d;
            x[d] = last < 16 && d == nd - 1 ? load_kv_n(v, at, last, kv) : load_kv(v, at, kv);
            if (kv == KERN_KV_Q8)
                x[d] = v16_mul(x[d], v16_set1_f16(scales(v, dim) + j * kv_groups(dim) + (d0 + 16 * d) / KV_GROUP));
        }
        UNROLL
        for (unsigned i = 0; i < nq; i++) {
            v16 p = v16_set1(y->p[(i0 + i) * y->query + j * y->key]);
            UNROLL
            for (unsigned d = 0; d < nd; d++) acc[i][d] = v16_fma(p, x[d], acc[i][d]);
        }
    }
    UNROLL
    for (unsigned i = 0; i < nq; i++) {
        UNROLL
        for (unsigned d = 0; d < nd; d++) {
            if (last < 16 && d == nd - 1)
                v16_store_n(o + i * dim + 16 * d, acc[i][d], last);
            else
                v16_store(o + i * dim + 16 * d, acc[i][d]);
        }
    }
}

/* All dims of nq queries. */
V void add_rows(unsigned nq, const struct values *y, unsigned i0, struct keys k)
{
    size_t d = 0, dim = y->dim;
    if (k.lo >= k.hi) return;
    for (; d + 16 * PV_D <= dim; d += 16 * PV_D) add_values(nq, PV_D, y, i0, k, d, 16);
    for (; d + 16 <= dim; d += 16) add_values(nq, 1, y, i0, k, d, 16);
    if (d < dim) add_values(nq, 1, y, i0, k, d, dim - d);
}

V unsigned below(unsigned n, unsigned max)
{
    return n < max ? n : max;
}

/* @nq queries, at most PV_Q: together for keys that all of them see, query by query for the keys before and after. */
V void add_together(unsigned nq, const struct values *y, unsigned i0)
{
    unsigned lo = 0, hi = KV_BLOCK;
    for (unsigned i = i0; i < i0 + nq; i++) {
        if (y->lo[i] > lo) lo = y->lo[i];
        if (y->hi[i] < hi) hi = y->hi[i];
    }
    if (lo >= hi) lo = hi = KV_BLOCK; /* no key is visible to all: the first loop adds those of each query */
    for (unsigned i = i0; i < i0 + nq; i++) add_rows(1, y, i, (struct keys){y->lo[i], below(y->hi[i], lo)});
    add_rows(nq, y, i0, (struct keys){lo, hi});
    for (unsigned i = i0; i < i0 + nq; i++) add_rows(1, y, i, (struct keys){hi, y->hi[i]});
}

/* The keys of a block from @pos on that a query sees: those from @begin to @end; none: both are 0. */
V struct keys visible(size_t begin, size_t end, size_t pos)
{
    struct keys k;
    k.lo = begin <= pos ? 0 : begin - pos < KV_BLOCK ? (unsigned)(begin - pos) : KV_BLOCK;
    k.hi = end <= pos ? 0 : end - pos < KV_BLOCK ? (unsigned)(end - pos) : KV_BLOCK;
    return k.lo < k.hi ? k : (struct keys){0, 0};
}
