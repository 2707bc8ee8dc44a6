/* SPDX-License-Identifier: MIT */
/* Latent attention as the papers write it: K and V of every head are expanded from the compressed rows. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <string.h>

struct latent {
    float *q, *low, *row, *normed, *k, *v, *att; /* of all tokens; k and v of one head */
};

static bool has(const struct pass *p, const char *which)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.weight", p->layer, which);
    return gguf_find_tensor(p->r->g, name);
}

static struct item_place place_of(const struct pass *p, uint32_t i)
{
    return p->r->places ? p->r->places[i] : (struct item_place){{i, i, i}};
}

static int queries(struct pass *p, struct latent *x)
{
    const struct hparams_mla *m = &p->r->s.mla;
    const size_t wide = m->nope + m->rope, heads = p->r->s.heads;
    int e = 0;
    if (m->q_rank) {
        e = reference_product(p, x->low, p->h, "attn_q_a", 0, m->q_rank, 0);
        if (!e) e = reference_norm(p, x->low, x->low, p->n, m->q_rank, "attn_q_a_norm");
    }
    if (!e)
        e = reference_product(p, x->q, m->q_rank ? x->low : p->h, m->q_rank ? "attn_q_b" : "attn_q", 0, heads * wide,
                              0);
    for (uint32_t i = 0; !e && i < p->n; i++)
        for (size_t h = 0; h < heads; h++)
            reference_rotate_head(p, x->q + (i * heads + h) * wide + m->nope, place_of(p, i));
    if (!e) reference_warm(p, x->q, heads * wide);
    return e;
}

/* The compressed rows: normed, and the rotated parts. */
static int compress(struct pass *p, struct latent *x)
{
    const struct hparams_mla *m = &p->r->s.mla;
    const size_t wide = m->kv_rank + m->rope;
    int e = reference_product(p, x->row, p->h, "attn_kv_a_mqa", 0, wide, 0);
    if (e) return e;
    for (size_t i = 0; i < p->n; i++) {
        memcpy(x->normed + i * m->kv_rank, x->row + i * wide, m->kv_rank * sizeof(float));
        reference_rotate_head(p, x->row + i * wide + m->kv_rank, place_of(p, (uint32_t)i));
    }
    return reference_norm(p, x->normed, x->normed, p->n, m->kv_rank, "attn_kv_a_norm");
}

/* k[n][nope] of a head, by the transposed matrix of newer files. */
static int keys_of(struct pass *p, const struct latent *x, uint32_t head, float *out)
{
    const struct hparams_mla *m = &p->r->s.mla;
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.attn_k_b.weight", p->layer);
    const struct gguf_tensor *t = gguf_find_tensor(p->r->g, name);
    _cleanup_(freep) float *w = malloc((size_t)m->kv_rank * m->nope * sizeof(*w));
    int e = !w ? error_origin(-ENOMEM) : reference_rows(t, (uint64_t)head * m->kv_rank, m->kv_rank, w);
    for (size_t i = 0; !e && i < p->n; i++)
        for (size_t d = 0; d < m->nope; d++) {
            double sum = 0;
            for (size_t c = 0; c < m->kv_rank; c++) sum += (double)x->normed[i * m->kv_rank + c] * w[c * m->nope + d];
            out[i * m->nope + d] = (float)sum;
        }
    return e;
}

/* k and v of a head. */
static int expand(struct pass *p, struct latent *x, uint32_t head)
{
    const struct hparams_mla *m = &p->r->s.mla;
    const size_t wide = m->nope + m->rope, both = m->nope + m->value, row = m->kv_rank + m->rope;
    const bool older = !has(p, "attn_k_b");
    _cleanup_(freep) float *nope = malloc(p->n * m->nope * sizeof(*nope));
    if (!nope) return error_origin(-ENOMEM);
    int e =
        older ? reference_product(p, nope, x->normed, "attn_kv_b", head * both, m->nope, 0) : keys_of(p, x, head, nope);
    if (!e)
        e = reference_product(p, x->v, x->normed, older ? "attn_kv_b" : "attn_v_b",
                              older ? head * both + m->nope : (uint64_t)head * m->value, m->value, 0);
    for (size_t i = 0; !e && i < p->n; i++) {
        memcpy(x->k + i * wide, nope + i * m->nope, m->nope * sizeof(float));
        memcpy(x->k + i * wide + m->nope, x->row + i * row + m->kv_rank, m->rope * sizeof(float));
    }
    return e;
}

static int attend(struct pass *p, struct latent *x)
{
    const struct hparams *s = &p->r->s;
    const struct hparams_mla *m = &s->mla;
    const int n = (int)p->n, wide = (int)(m->nope + m->rope), value = (int)m->value, heads = (int)s->heads;
    int e = queries(p, x);
    if (!e) e = compress(p, x);
    for (int h = 0; !e && h < heads; h++) {
        e = expand(p, x, (uint32_t)h);
        const struct blas_product qk = {p->score, x->q + h * wide, x->k, n, heads * wide, wide, n, n, wide, true};
        const struct blas_product pv = {
            x->att + h * value, p->score, x->v, heads * value, n, value, n, value, n, false};
        if (e) break;
        blas_multiply(&p->r->blas, &qk);
        reference_softmax(p, (uint32_t)h);
        blas_multiply(&p->r->blas, &pv);
    }
    return e ? e : reference_product(p, p->h, x->att, "attn_output", 0, s->dim, 0);
}

int reference_mla(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    const struct hparams_mla *m = &s->mla;
    const size_t n = p->n, wide = m->nope + m->rope, row = m->kv_rank + m->rope;
    const size_t floats = s->heads * wide + m->q_rank + row + m->kv_rank + wide + m->value + s->heads * m->value;
    _cleanup_(freep) float *mem = malloc(n * floats * sizeof(*mem));
    if (!mem) return error_origin(-ENOMEM);
    struct latent x = {.q = mem};
    p->sink_scores = NULL;
    x.low = x.q + n * s->heads * wide;
    x.row = x.low + n * m->q_rank;
    x.normed = x.row + n * row;
    x.k = x.normed + n * m->kv_rank;
    x.v = x.k + n * wide;
    x.att = x.v + n * m->value;
    return attend(p, &x);
}
