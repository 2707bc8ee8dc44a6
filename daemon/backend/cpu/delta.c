/* SPDX-License-Identifier: MIT */
/*
 * The gated delta rule of Qwen3-Next and Qwen 3.5. The input's products are q, k and v, which go through one
 * convolution, a gate z of the output, and for each value head a beta and a decay. The key head of value head h is h
 * modulo their number, or h divided by the value heads of each.
 *
 * The state of a layer behind the convolution's inputs: [value heads][head/16][head][16] (struct kern_delta).
 */
#include "daemon/backend/cpu/recurrent.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TOKENS 16 /* whose keys and queries are normed at a time */

enum { QKV, Z, BETA, ALPHA }; /* products of the input; without ALPHA, BETA has both (gates_of) */

static int want(struct weights_plan *p, struct layer_recurrent *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct hparams_recurrent *h = &s->recurrent;
    const bool apart = h->in[ALPHA] > 0;
    char old[64];
    snprintf(old, sizeof(old), "blk.%u.ssm_in.weight", l);
    if (gguf_find_tensor(p->g, old))
        return error_say(-EOPNOTSUPP,
                         "%s: tensor '%s' has q, k, v and z mixed, as in the first files of this model: take a newer "
                         "one, or convert it again",
                         gguf_path(p->g), old);
    int r = weights_want_matrix(p, &y->in[QKV], l, "attn_qkv", s->dim, h->in[QKV]);
    if (!r) r = weights_want_matrix(p, &y->in[Z], l, "attn_gate", s->dim, h->in[Z]);
    if (!r) r = weights_want_matrix(p, &y->in[BETA], l, apart ? "ssm_beta" : "ssm_ba", s->dim, h->in[BETA]);
    if (!r && apart) r = weights_want_matrix(p, &y->in[ALPHA], l, "ssm_alpha", s->dim, h->in[ALPHA]);
    if (!r) r = weights_want_vector(p, &y->conv, l, "ssm_conv1d.weight", h->taps, h->channels);
    if (!r) r = weights_want_vector(p, &y->a, l, "ssm_a", h->heads, 0);
    if (!r) r = weights_want_vector(p, &y->dt_bias, l, "ssm_dt.bias", h->heads, 0);
    if (!r) r = weights_want_vector(p, &y->norm, l, "ssm_norm.weight", h->head_dim, 0);
    return r ? r : weights_want_matrix(p, &y->out, l, "ssm_out", h->out, s->dim);
}

static void channels(const struct pass *p, const struct recurrence *r, uint32_t part)
{
    const size_t ld = p->c->base.hparams.recurrent.channels;
    uint32_t n;
    recurrent_conv(p, r, part, p->c->scratch.recurrent.in[QKV] + r->row * ld, ld, true, &n);
}

/* Of @n tokens from row @row on: the decay and the beta of value head @head. */
static void gates_of(const struct pass *p, size_t row, uint32_t n, uint32_t head, float *decay, float *beta)
{
    const struct hparams_recurrent *s = &p->c->base.hparams.recurrent;
    const struct recurrent_scratch *in = &p->c->scratch.recurrent;
    const uint32_t each = s->heads / s->key_heads, mixed = head / each * 2 * each + head % each;
    for (uint32_t t = 0; t < n; t++) {
        const float *b = in->in[BETA] + (row + t) * s->in[BETA];
        const float *a = s->in[ALPHA] ? in->in[ALPHA] + (row + t) * s->in[ALPHA] + head : b + mixed + each;
        beta[t] = 1 / (1 + kern_exp(-b[s->in[ALPHA] ? head : mixed]));
        decay[t] = *a + p->w->recurrent.dt_bias[head];
    }
    p->c->kern->softplus(decay, n);
    for (uint32_t t = 0; t < n; t++) decay[t] = kern_exp(decay[t] * p->w->recurrent.a[head]);
}

/* @n tokens of value head @head, from row @row on. */
static void scan_tokens(const struct pass *p, size_t row, uint32_t n, uint32_t head, float *state)
{
    const struct hparams *y = &p->c->base.hparams;
    const struct hparams_recurrent *s = &y->recurrent;
    const struct kernels *k = p->c->kern;
    const uint32_t each = s->heads / s->key_heads, key = s->in[ALPHA] ? head % s->key_heads : head / each;
    const size_t dim = s->head_dim, keys = s->key_heads * dim;
    float decay[TOKENS], beta[TOKENS], q[TOKENS][2 * HPARAMS_DELTA_MAX];
    const float *x = p->c->scratch.recurrent.in[QKV] + row * s->channels, scale = 1 / sqrtf((float)dim);
    gates_of(p, row, n, head, decay, beta);
    for (uint32_t t = 0; t < n; t++) {
        const float *from = x + t * s->channels + key * dim;
        k->l2norm(q[t], from, dim, y->rms_eps, scale);
        k->l2norm(q[t] + HPARAMS_DELTA_MAX, from + keys, dim, y->rms_eps, 1);
    }
    k->recurrent.delta(&(struct kern_delta){.q = q[0],
                                            .k = q[0] + HPARAMS_DELTA_MAX,
                                            .ld = 2 * HPARAMS_DELTA_MAX,
                                            .v = x + 2 * keys + head * dim,
                                            .ld_v = s->channels,
                                            .decay = decay,
                                            .beta = beta,
                                            .ld_gate = 1,
                                            .o = p->c->scratch.recurrent.out.f + row * s->out + head * dim,
                                            .ld_o = s->out,
                                            .state = state,
                                            .n = n,
                                            .dk = dim,
                                            .dv = dim});
}

/* The entry's tokens in one value head. */
static void heads(const struct pass *p, const struct recurrence *r, uint32_t head)
{
    const struct hparams_recurrent *s = &p->c->base.hparams.recurrent;
    const struct batch_entry *e = r->entry;
    const size_t dim = s->head_dim, at = (s->taps - 1) * (size_t)s->channels + head * dim * dim;
    float *state = recurrent_state(p, e->state.block) + at;
    if (!e->pos) memset(state, 0, dim * dim * sizeof(*state));
    for (uint32_t t = 0, n, saved = 0; t < e->n; t += n) {
        const struct state_save *save = saved < e->state.n_saves ? &e->state.saves[saved] : NULL;
        const uint32_t stop = save ? save->n : e->n;
        n = stop - t < TOKENS ? stop - t : TOKENS;
        scan_tokens(p, r->row + t, n, head, state);
        if (!save || t + n != save->n) continue;
        memcpy(recurrent_state(p, save->block) + at, state, dim * dim * sizeof(*state));
        saved++;
    }
}

static void scan(struct pass *p)
{
    const struct hparams *s = &p->c->base.hparams;
    recurrent_run(p, recurrent_conv_parts(s), channels);
    recurrent_run(p, s->recurrent.heads, heads);
}

/* out = norm(out) * silu(z) */
static void finish(const struct pass *p, size_t row)
{
    const struct hparams *y = &p->c->base.hparams;
    const struct hparams_recurrent *s = &y->recurrent;
    float *out = p->c->scratch.recurrent.out.f + row * s->out, *z = p->c->scratch.recurrent.in[Z] + row * s->out;
    for (uint32_t h = 0; h < s->heads; h++) {
        float *o = out + h * (size_t)s->head_dim;
        p->c->kern->rmsnorm(o, o, p->w->recurrent.norm, s->head_dim, y->rms_eps);
    }
    p->c->kern->silu_mul(z, out, s->out);
    memcpy(out, z, s->out * sizeof(*out));
}

const struct recurrent_ops recurrent_delta = {.want = want, .scan = scan, .finish = finish};
