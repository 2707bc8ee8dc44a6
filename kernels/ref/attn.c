/* SPDX-License-Identifier: MIT */
/* Attention over KV blocks, and its merge. */
#include "kernels/kv.h"
#include "kernels/ref/ref.h"

/* Value of dim @d of token @j in a block of K or V. */
typedef float (*load_fn)(const void *block, size_t dim, size_t d, size_t j);

static float k_f32(const void *block, size_t dim, size_t d, size_t j)
{
    return ((const float *)block)[d * KV_BLOCK + j];
}

static float v_f32(const void *block, size_t dim, size_t d, size_t j)
{
    return ((const float *)block)[j * dim + d];
}

static float k_f16(const void *block, size_t dim, size_t d, size_t j)
{
    return ref_f16(((const uint16_t *)block)[d * KV_BLOCK + j]);
}

static float v_f16(const void *block, size_t dim, size_t d, size_t j)
{
    return ref_f16(((const uint16_t *)block)[j * dim + d]);
}

static float k_q8(const void *block, size_t dim, size_t d, size_t j)
{
    const int8_t *q = block;
    const uint16_t *scale = (const void *)(q + kv_codes(dim));
    return (float)q[d * KV_BLOCK + j] * ref_f16(scale[d / KV_GROUP * KV_BLOCK + j]);
}

static float v_q8(const void *block, size_t dim, size_t d, size_t j)
{
    const int8_t *q = block;
    const uint16_t *scale = (const void *)(q + kv_codes(dim));
    return (float)q[j * dim + d] * ref_f16(scale[j * kv_groups(dim) + d / KV_GROUP]);
}

static size_t width(const struct kern_attn *a)
{
    return a->v ? a->dim : a->v_dim;
}

/* One query and one block; keys [lo, hi) are visible, at least one. m, l, o are updated. */
static inline void block(const struct kern_attn *a, size_t iq, size_t ib, unsigned lo, unsigned hi, load_fn k,
                         load_fn v)
{
    const float *q = a->q[iq];
    const size_t wide = width(a);
    float *o = a->o + iq * wide;
    float s[KV_BLOCK], p[KV_BLOCK] = {0}, max = -INFINITY;

    for (unsigned j = lo; j < hi; j++) {
        s[j] = 0;
        for (size_t d = 0; d < a->dim; d++) s[j] = fmaf(q[d], k(a->k[ib], a->dim, d, j), s[j]);
        s[j] *= a->scale;
        if (a->cap > 0) s[j] = ref_softcap(s[j], a->cap);
        if (a->slope) s[j] = fmaf(-a->slope[iq], fabsf((float)((int32_t)(ib * KV_BLOCK + j) - a->at[iq])), s[j]);
        if (s[j] > max) max = s[j];
    }
    max += 0.0f;
    if (a->m[iq] == -INFINITY) {
        a->m[iq] = max;
    } else if (max > a->m[iq]) {
        float c = ref_exp(a->m[iq] - max);
        a->m[iq] = max;
        a->l[iq] *= c;
        for (size_t d = 0; d < wide; d++) o[d] *= c;
    }
    for (unsigned j = lo; j < hi; j++) {
        p[j] = ref_exp(s[j] - a->m[iq]);
        for (size_t d = 0; d < wide; d++)
            o[d] = fmaf(p[j], a->v ? v(a->v[ib], a->dim, d, j) : k(a->k[ib], a->dim, d, j), o[d]);
    }
    a->l[iq] += ref_fold(p, KV_BLOCK);
}

static inline void attn(const struct kern_attn *a, load_fn k, load_fn v)
{
    for (size_t iq = 0; iq < a->n_q; iq++) {
        if (!a->more) {
            a->m[iq] = -INFINITY;
            a->l[iq] = 0;
            memset(a->o + iq * width(a), 0, width(a) * sizeof(float));
        }
        for (size_t ib = 0; ib < a->n_blocks; ib++) {
            size_t first = ib * KV_BLOCK, begin = a->begin[iq], end = a->end[iq];
            unsigned lo = begin <= first ? 0 : begin - first < KV_BLOCK ? (unsigned)(begin - first) : KV_BLOCK;
            unsigned hi = end <= first ? 0 : end - first < KV_BLOCK ? (unsigned)(end - first) : KV_BLOCK;
            if (lo < hi) block(a, iq, ib, lo, hi, k, v);
        }
    }
}

KERN_ATTN(REF(attn_f32))
{
    attn(a, k_f32, v_f32);
}

KERN_ATTN(REF(attn_f16))
{
    attn(a, k_f16, v_f16);
}

KERN_ATTN(REF(attn_q8))
{
    attn(a, k_q8, v_q8);
}

void REF(attn_merge)(float *out, const float *m, const float *l, size_t ld_m, const float *o, size_t ld_o, size_t n_seg,
                     size_t dim)
{
    float big = 0, sum = 0;
    bool any = false;
    for (size_t i = 0; i < n_seg; i++) {
        const float *oi = o + i * ld_o;
        float mi = m[i * ld_m], li = l[i * ld_m];
        if (!(li > 0)) continue;
        if (!any) {
            any = true;
            big = mi, sum = li;
            memcpy(out, oi, dim * sizeof(float));
            continue;
        }
        float top = mi > big ? mi : big, a = ref_exp(big - top), b = ref_exp(mi - top);
        big = top;
        sum = fmaf(li, b, sum * a);
        for (size_t d = 0; d < dim; d++) out[d] = fmaf(oi[d], b, out[d] * a);
    }
    for (size_t d = 0; d < dim; d++) out[d] /= sum;
}
