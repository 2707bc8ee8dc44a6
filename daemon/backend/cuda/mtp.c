/* SPDX-License-Identifier: MIT */
/* The input of a layer that predicts later tokens, as daemon/backend/cpu/mtp.c has it: the host norms, the device
 * multiplies. */
#include "daemon/backend/cuda/cuda.h"

int cuda_upload_pairs(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    cpu_mtp_pairs(&p->cpu);
    return cuda_upload(&c->device, c->buf.pairs, c->host->scratch.pairs.f,
                       (size_t)p->n * 2 * c->host->base.hparams.dim * sizeof(float));
}

int cuda_mtp_input(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct product out = {&c->host->weights.mtp.eh_proj, c->buf.x};
    int r = 0;
    p->x = c->buf.x;
    if (cpu_quantized(&out, 1)) r = cuda_quantize_rows(p, c->buf.pairs, p->n, out.m->k, &c->buf.pair_acts);
    return r ? r : cuda_products(p, &out, 1, c->buf.pairs, &c->buf.pair_acts);
}
