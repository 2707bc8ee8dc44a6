/* SPDX-License-Identifier: MIT */
/* The input of a layer that predicts later tokens (struct backend_config, mtp_of). */
#include "daemon/backend/cpu/cpu.h"

/* The normed embedding of each token and, behind it, the normed state. */
static void pair_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct scratch *s = &p->c->scratch;
    const struct weights_mtp *w = &p->c->weights.mtp;
    const size_t dim = p->c->base.hparams.dim;
    for (size_t i = begin; i < end; i++) {
        const struct token *t = &s->tokens[i];
        float *row = s->pairs.f + i * 2 * dim;
        cpu_norm(p, row, s->x + i * dim, w->enorm, NULL, dim);
        cpu_norm(p, row + dim, t->entry->states + (t->pos - t->entry->pos) * dim, w->hnorm, NULL, dim);
        cpu_quantize_row(p, &s->pairs, i);
    }
}

void cpu_mtp_pairs(struct pass *p)
{
    cpu_each(p, pair_tokens, p->n);
}

void cpu_mtp_input(struct pass *p)
{
    const struct product out = {&p->c->weights.mtp.eh_proj, p->c->scratch.x};
    p->quantize = cpu_quantized(&out, 1);
    cpu_mtp_pairs(p);
    cpu_products(p, &out, 1, &p->c->scratch.pairs, p->n);
}
