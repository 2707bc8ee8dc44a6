/* SPDX-License-Identifier: MIT */
/* Mamba-2's layer: the input's product is a gate z, then x, b and c, which are convolved, then a time step of each
 * head. The state of a layer: that of the convolution, then [head][head_dim/16][state][16]. */
#include "daemon/backend/cpu/recurrent.h"
#include <string.h>

static int want(struct weights_plan *p, struct layer_recurrent *y, uint32_t l)
{
    const struct hparams_recurrent *s = &p->s->recurrent;
    const bool norm = p->s->desc->recurrent.norm == ARCH_MUST || weights_has(p, l, "ssm_norm.weight");
    int r = weights_want_matrix(p, &y->in[0], l, "ssm_in", p->s->dim, s->in[0]);
    if (!r) r = weights_want_vector(p, &y->conv, l, "ssm_conv1d.weight", s->taps, s->channels);
    if (!r && weights_has(p, l, "ssm_conv1d.bias"))
        r = weights_want_vector(p, &y->conv_bias, l, "ssm_conv1d.bias", s->channels, 0);
    if (!r) r = weights_want_vector(p, &y->dt_bias, l, "ssm_dt.bias", s->heads, 0);
    if (!r) r = weights_want_vector(p, &y->a, l, "ssm_a", 1, s->heads);
    if (!r) r = weights_want_vector(p, &y->d, l, "ssm_d", 1, s->heads);
    if (!r && norm) r = weights_want_rows(p, &y->norm, l, "ssm_norm.weight", s->out / s->groups, s->groups);
    return r ? r : weights_want_matrix(p, &y->out, l, "ssm_out", s->out, p->s->dim);
}

/* Row @i of the input's product. */
static float *input(const struct pass *p, size_t i)
{
    return p->c->scratch.recurrent.in[0] + i * p->c->base.hparams.recurrent.in[0];
}

/* The first part also computes the time steps. */
static void convolve(const struct pass *p, const struct recurrence *r, uint32_t part)
{
    const struct hparams_recurrent *s = &p->c->base.hparams.recurrent;
    uint32_t n;
    recurrent_conv(p, r, part, input(p, r->row) + s->out, s->in[0], true, &n);
    for (uint32_t t = 0; !part && t < r->entry->n; t++) {
        float *dt = input(p, r->row + t) + s->out + s->channels;
        p->c->kern->add(dt, p->w->recurrent.dt_bias, s->heads);
        p->c->kern->softplus(dt, s->heads);
    }
}

/* Tokens [from, to) of the entry. */
static void scan_tokens(const struct pass *p, const struct recurrence *r, uint32_t head, float *state, uint32_t from,
                        uint32_t to)
{
    const struct hparams_recurrent *s = &p->c->base.hparams.recurrent;
    const float *in = input(p, r->row + from) + s->out;
    const uint32_t group = head / (s->heads / s->groups);
    struct kern_ssm a = {.x = in + (size_t)head * s->head_dim,
                         .b = in + s->out + (size_t)group * s->state,
                         .c = in + s->out + (size_t)(s->groups + group) * s->state,
                         .dt = in + s->channels + head,
                         .y = p->c->scratch.recurrent.out.f + (size_t)(r->row + from) * s->out + head * s->head_dim,
                         .state = state,
                         .a = p->w->recurrent.a[head],
                         .d = p->w->recurrent.d[head],
                         .ld = s->in[0],
                         .ld_y = s->out,
                         .n = to - from,
                         .rows = s->state,
                         .dim = s->head_dim};
    p->c->kern->recurrent.ssm(&a);
}

static void scan_head(const struct pass *p, const struct recurrence *r, uint32_t head)
{
    const struct hparams_recurrent *s = &p->c->base.hparams.recurrent;
    const struct batch_entry *e = r->entry;
    const size_t size = (size_t)s->state * s->head_dim, at = (size_t)(s->taps - 1) * s->channels + head * size;
    float *state = recurrent_state(p, e->state.block) + at;
    uint32_t from = 0;
    if (!e->pos) memset(state, 0, size * sizeof(*state));
    for (uint32_t i = 0; i < e->state.n_saves; from = e->state.saves[i++].n) {
        scan_tokens(p, r, head, state, from, e->state.saves[i].n);
        memcpy(recurrent_state(p, e->state.saves[i].block) + at, state, size * sizeof(*state));
    }
    if (from < e->n) scan_tokens(p, r, head, state, from, e->n);
}

static void scan(struct pass *p)
{
    recurrent_run(p, recurrent_conv_parts(&p->c->base.hparams), convolve);
    recurrent_run(p, p->c->base.hparams.recurrent.heads, scan_head);
}

/* out = silu(z) * y, then the norm of each group. */
static void finish(const struct pass *p, size_t row)
{
    const struct hparams *y = &p->c->base.hparams;
    const struct hparams_recurrent *s = &y->recurrent;
    const uint32_t n = s->out / s->groups;
    float *z = input(p, row), *out = p->c->scratch.recurrent.out.f + row * s->out;
    p->c->kern->silu_mul(z, out, s->out);
    if (!p->w->recurrent.norm) memcpy(out, z, s->out * sizeof(*out));
    for (uint32_t g = 0; p->w->recurrent.norm && g < s->out; g += n)
        p->c->kern->rmsnorm(out + g, z + g, p->w->recurrent.norm + g, n, y->rms_eps);
}

const struct recurrent_ops recurrent_mamba2 = {.want = want, .scan = scan, .finish = finish};
