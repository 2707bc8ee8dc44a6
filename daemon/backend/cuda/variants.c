/* SPDX-License-Identifier: MIT */
/* Parts of blocks that only some architectures have: gates of queries, activations. Their kernels are plain: those of
 * usual models stay fast. */
#include "daemon/backend/cuda/cuda.h"

#define THREADS 256

int cuda_find_variants(struct cuda *c)
{
    const unsigned row = (c->host->base.hparams.per_layer + 1) * (unsigned)sizeof(float);
    int r = cuda_kernel(&c->device, &c->kern.xielu, "cuda_xielu", 0);
    if (!r) r = cuda_kernel(&c->device, &c->kern.head_gate, "cuda_head_gate", 0);
    if (!r) r = cuda_kernel(&c->device, &c->kern.layer_rows, "cuda_layer_rows", row);
    if (!r) r = cuda_kernel(&c->device, &c->kern.layer_gate, "cuda_layer_gate", 0);
    return r ? r : cuda_find_altup(c);
}

int cuda_gate_heads(const struct cuda_pass *p, const uint32_t *list, const struct product *out)
{
    const struct cuda *c = p->c;
    struct cuda_head_gate a = {.x = c->buf.att, .gate = c->buf.q_gate, .list = list, .k = out->m->k};
    if (cpu_quantized(out, 1)) a.q = cuda_acts_of(p, c->buf.att_acts);
    if (cuda_reads_plain(p, out, 1)) a.f = c->buf.att;
    return cuda_launch(&c->device, c->kern.head_gate, cuda_rows_grid(a.k, p->n), &a);
}

bool cuda_activates(const struct cuda_pass *p)
{
    const struct hparams *s = &p->c->host->base.hparams;
    return s->desc->activation == ACT_XIELU || hparams_sparse(s, p->cpu.layer);
}

int cuda_activate(const struct cuda_pass *p, const struct cuda_gated *a)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    struct cuda_xielu x = {.g = *a};
    const struct cuda_sparse_gate sparse = {
        .gate = a->gate, .up = a->up, .f = a->f, .q = a->q, .factor = s->altup.sparsity, .k = a->k};
    const struct cuda_grid row = {p->n, 1, THREADS, (a->k + 1) * (unsigned)sizeof(float)};
    if (hparams_sparse(s, p->cpu.layer)) return cuda_launch(&c->device, c->kern.sparse_gate, row, &sparse);
    for (uint32_t i = 0; i < 4; i++) x.by[i] = p->cpu.w->xielu[i];
    return cuda_launch(&c->device, c->kern.xielu, cuda_rows_grid(a->k, p->n), &x);
}
