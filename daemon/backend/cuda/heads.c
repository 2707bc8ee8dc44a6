/* SPDX-License-Identifier: MIT */
/* Heads between their products and attention, and decoding, where one kernel does both. */
#include "daemon/backend/cuda/cuda.h"

struct cuda_heads cuda_heads_of(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const struct layer *w = p->cpu.w;
    const struct arch *desc = s->desc;
    const uint32_t which = hparams_window(s, p->cpu.layer) ? hparams_ropes(s) - 1 : 0;
    const bool normed = cuda_norms_heads(p); /* by cuda_norm_heads */
    const bool warm = s->temperature.scale != 0 && !(s->temperature.unrotated && hparams_rotates(s, p->cpu.layer));
    return (struct cuda_heads){.q = c->buf.q,
                               .q_sinks = p->slides ? c->buf.q_sinks : NULL,
                               .k = c->buf.k,
                               .v = w->v.rows ? c->buf.v : c->buf.k,
                               .q_bias = normed ? NULL : cuda_weight(c, w->q.bias),
                               .k_bias = normed ? NULL : cuda_weight(c, w->k.bias),
                               .v_bias = cuda_weight(c, w->v.bias),
                               .q_norm = normed ? NULL : cuda_weight(c, w->q_norm),
                               .k_norm = normed ? NULL : cuda_weight(c, w->k_norm),
                               .cs = p->cs[which],
                               .sink_cs = p->sink_cs,
                               .warmth = warm ? cuda_note(c, p->warmth) : NULL,
                               .token = cuda_note(c, p->tokens),
                               .kv = cuda_kv_layer(c, p->cpu.group, p->cpu.group_layer),
                               .eps = s->rms_eps,
                               .heads = (uint16_t)s->heads,
                               .kv_heads = (uint16_t)p->cpu.heads.kv_heads,
                               .dim = (uint16_t)p->cpu.heads.head_dim,
                               .rot = (uint16_t)p->cpu.heads.rope_dim,
                               .group = (uint8_t)p->cpu.group,
                               .type = (uint8_t)c->host->base.config.kv_type,
                               .rotates = hparams_rotates(s, p->cpu.layer),
                               .neox = desc->rope.neox,
                               .each = desc->qk_norm == QK_NORM_EACH,
                               .after = desc->block.qk_after_rope,
                               .unit = s->unit_norm,
                               .v_norm = desc->attention.v_norm};
}

/* cuda_heads_plain computes it. */
static bool is_plain(const struct cuda_heads *a)
{
    return a->rotates && a->rot == a->dim && a->dim % 4 == 0 && !a->q_norm && !a->unit && !a->q_sinks;
}

int cuda_place_heads(const struct cuda_pass *p)
{
    if (p->c->kern.latent.attn) return cuda_place_latent(p);
    const struct cuda_heads a = cuda_heads_of(p);
    const uint32_t heads = a.heads + (p->cpu.own_kv ? a.kv_heads : 0);
    const unsigned bytes = a.dim * (unsigned)sizeof(float), threads = CUDA_MANY_WARPS * CUDA_WARP;
    const struct cuda_grid one = {p->n, heads, CUDA_WARP, bytes},
                           many = {p->n, cuda_divide(heads, CUDA_MANY_WARPS), threads, CUDA_MANY_WARPS * bytes},
                           plain = {p->n,
                                    cuda_divide(a.heads * a.dim, 4 * threads) +
                                        cuda_divide(2 * a.kv_heads, CUDA_MANY_WARPS),
                                    threads, CUDA_MANY_WARPS * bytes};
    const bool uneven = !p->cpu.own_kv && heads % CUDA_MANY_WARPS; /* the last warps would be those of K and V */
    if (p->n <= CUDA_MANY_TOKENS || uneven) return cuda_launch(&p->c->device, p->c->kern.heads, one, &a);
    if (is_plain(&a) && p->cpu.own_kv) return cuda_launch(&p->c->device, p->c->kern.heads_plain, plain, &a);
    return cuda_launch(&p->c->device, p->c->kern.heads_many, many, &a);
}
