/* SPDX-License-Identifier: MIT */
/* Attention over KV blocks: K is [dim][32], V is [32][dim]. */
#include "kernels/ref/ref.h"

typedef float (*load_fn)(const void *base, size_t i);

static float load_f32(const void *base, size_t i)
{
    return ((const float *)base)[i];
}

static float load_f16(const void *base, size_t i)
{
    return ref_f16(((const uint16_t *)base)[i]);
}

/* One query and one block; keys [lo, hi) are visible, at least one. m, l, o are updated. */
static inline void block(const struct kern_attn *a, size_t iq, size_t ib, unsigned lo, unsigned hi, load_fn load)
{
    const float *q = a->q[iq];
    float *o = a->o + iq * a->dim;
    float s[KV_BLOCK], p[KV_BLOCK] = {0}, max = -INFINITY;

    for (unsigned j = lo; j < hi; j++) {
        s[j] = 0;
        for (size_t d = 0; d < a->dim; d++) s[j] = fmaf(q[d], load(a->k[ib], d * KV_BLOCK + j), s[j]);
        s[j] *= a->scale;
        if (s[j] > max) max = s[j];
    }
    max += 0.0f;
    if (a->m[iq] == -INFINITY) {
        a->m[iq] = max;
    } else if (max > a->m[iq]) {
        float c = ref_exp(a->m[iq] - max);
        a->m[iq] = max;
        a->l[iq] *= c;
        for (size_t d = 0; d < a->dim; d++) o[d] *= c;
    }
    for (unsigned j = lo; j < hi; j++) {
        p[j] = ref_exp(s[j] - a->m[iq]);
        for (size_t d = 0; d < a->dim; d++) o[d] = fmaf(p[j], load(a->v[ib], j * a->dim + d), o[d]);
    }
    a->l[iq] += ref_fold(p, KV_BLOCK);
}

static inline void attn(const struct kern_attn *a, load_fn load)
{
    for (size_t iq = 0; iq < a->n_q; iq++) {
        a->m[iq] = -INFINITY;
        a->l[iq] = 0;
        memset(a->o + iq * a->dim, 0, a->dim * sizeof(float));
        for (size_t ib = 0; ib < a->n_blocks; ib++) {
            size_t first = ib * KV_BLOCK, begin = a->begin[iq], end = a->end[iq];
            unsigned lo = begin <= first ? 0 : begin - first < KV_BLOCK ? (unsigned)(begin - first) : KV_BLOCK;
            unsigned hi = end <= first ? 0 : end - first < KV_BLOCK ? (unsigned)(end - first) : KV_BLOCK;
            if (lo < hi) block(a, iq, ib, lo, hi, load);
        }
    }
}

KERN_ATTN(REF(attn_f32))
{
    attn(a, load_f32);
}

KERN_ATTN(REF(attn_f16))
{
    attn(a, load_f16);
}

KERN_KV_STORE(REF(kv_store_f32))
{
    float *kb = kblock, *vb = vblock;
    for (size_t d = 0; d < dim; d++) {
        kb[d * KV_BLOCK + slot] = k[d];
        vb[slot * dim + d] = v[d];
    }
}

KERN_KV_STORE(REF(kv_store_f16))
{
    uint16_t *kb = kblock, *vb = vblock;
    for (size_t d = 0; d < dim; d++) {
        kb[d * KV_BLOCK + slot] = ref_to_f16(k[d]);
        vb[slot * dim + d] = ref_to_f16(v[d]);
    }
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
