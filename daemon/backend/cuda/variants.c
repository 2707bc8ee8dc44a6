/* SPDX-License-Identifier: MIT */
/* Parts of blocks that only some architectures have: gates of queries, activations. Their kernels are plain: those of
 * usual models stay fast. */
#include "daemon/backend/cuda/cuda.h"

#define THREADS 256

static uint32_t divide(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

int cuda_find_variants(struct cuda *c)
{
    int r = cuda_kernel(&c->device, &c->kern.xielu, "cuda_xielu", 0);
    return r ? r : cuda_kernel(&c->device, &c->kern.head_gate, "cuda_head_gate", 0);
}

int cuda_gate_heads(const struct cuda_pass *p, const uint32_t *list, const struct product *out)
{
    const struct cuda *c = p->c;
    struct cuda_head_gate a = {.x = c->buf.att, .gate = c->buf.q_gate, .list = list, .k = out->m->k};
    if (cpu_quantized(out, 1))
        a.q = cuda_acts_of(p, c->buf.att_acts);
    else
        a.f = c->buf.att;
    return cuda_launch(&c->device, c->kern.head_gate, (struct cuda_grid){divide(a.k, 4 * THREADS), p->n, THREADS, 0},
                       &a);
}

bool cuda_activates(const struct cuda_pass *p)
{
    return p->c->host.base.hparams.desc->activation == ACT_XIELU;
}

int cuda_activate(const struct cuda_pass *p, const struct cuda_gated *a)
{
    const struct cuda *c = p->c;
    struct cuda_xielu x = {.g = *a};
    for (uint32_t i = 0; i < 4; i++) x.by[i] = p->cpu.w->xielu[i];
    return cuda_launch(&c->device, c->kern.xielu, (struct cuda_grid){divide(a->k, 4 * THREADS), p->n, THREADS, 0}, &x);
}
