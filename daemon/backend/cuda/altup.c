/* SPDX-License-Identifier: MIT */
/* AltUp and LAuReL, step by step as in daemon/backend/cpu/altup.c. */
#include "daemon/backend/cuda/cuda.h"
#include <assert.h>
#include <math.h>

#define THREADS       256
#define SMALLEST_MEAN 1e-5 /* as there */

/* What all steps have in common. */
static struct cuda_altup step_of(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    assert(s->altup.streams <= CUDA_STREAMS);
    return (struct cuda_altup){.streams = c->buf.altup.streams,
                               .x = p->x,
                               .side = c->buf.altup.side,
                               .eps = s->rms_eps,
                               .least = (float)sqrt(SMALLEST_MEAN * (double)s->dim),
                               .count = s->altup.streams,
                               .k = s->dim};
}

static int start(const struct cuda_pass *p, CUfunction f, const struct cuda_altup *a)
{
    return cuda_launch(&p->c->device, f, (struct cuda_grid){p->n, 1, THREADS, (a->k + 1) * (unsigned)sizeof(float)}, a);
}

/* Of a stack of matrices, that of @stream. */
static struct matrix matrix_of(const struct matrix *stack, uint32_t stream)
{
    struct matrix m = *stack;
    m.panels += (size_t)(stream - 1) * m.n_panels * m.panel_bytes;
    m.stacked = 1;
    return m;
}

int cuda_altup_begin(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct cuda_norm_by none = {.w = NULL};
    const struct product in = {&c->host->weights.altup_in, NULL};
    struct cuda_altup a = step_of(p);
    struct cuda_norm copy = cuda_join_of(p, &none);
    copy.f = c->buf.h;
    if (cpu_quantized(&in, 1)) copy.q = cuda_acts_of(p, c->buf.h_acts);
    int r = cuda_join(p, &none, &copy);
    for (a.stream = 1; !r && a.stream < a.count; a.stream++) {
        const struct matrix m = matrix_of(in.m, a.stream);
        r = cuda_products(p, &(struct product){&m, a.side}, 1, c->buf.h, &c->buf.h_acts);
        if (!r) r = start(p, c->kern.altup.begin, &a);
    }
    return r;
}

int cuda_altup_predict(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct layer_altup *w = &p->cpu.w->altup;
    struct cuda_altup a = step_of(p);
    a.h = c->buf.h;
    a.post = p->pending ? cuda_weight(c, p->post) : NULL;
    a.router_norm = cuda_weight(c, w->router_norm);
    a.router = cuda_weight(c, w->router);
    a.mix = cuda_weight(c, w->predict);
    p->pending = false;
    return start(p, c->kern.altup.predict, &a);
}

int cuda_altup_correct(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct layer_altup *w = &p->cpu.w->altup;
    const struct cuda_norm_by none = {.w = NULL};
    const struct cuda_norm join = cuda_join_of(p, &none);
    struct cuda_altup a = step_of(p);
    a.h = c->buf.h;
    if (cpu_quantized(&(struct product){&p->cpu.w->embedding.gate, NULL}, 1)) a.q = cuda_acts_of(p, c->buf.h_acts);
    a.router_norm = cuda_weight(c, w->router_norm);
    a.router = cuda_weight(c, w->router);
    a.mix = cuda_weight(c, w->correct);
    a.scale = cuda_weight(c, w->correct_scale);
    int r = cuda_join(p, &none, &join);
    return r ? r : start(p, c->kern.altup.correct, &a);
}

int cuda_laurel(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const struct product out = {&p->cpu.w->altup.laurel_out, c->buf.altup.side};
    const uint32_t rank = s->altup.rank;
    int r = 0;
    if (cpu_quantized(&out, 1)) r = cuda_quantize_rows(p, c->buf.altup.low, p->n, rank, &c->buf.altup.low_acts);
    if (!r) r = cuda_products(p, &out, 1, c->buf.altup.low, &c->buf.altup.low_acts);
    return r ? r : cuda_norm_side(p, c->buf.h, c->buf.altup.side, p->cpu.w->altup.laurel_norm);
}

int cuda_altup_join(struct cuda_pass *p)
{
    struct cuda_altup a = step_of(p);
    a.h = p->c->buf.h;
    a.post = cuda_weight(p->c, p->post);
    p->pending = false;
    return start(p, p->c->kern.altup.join, &a);
}

int cuda_altup_end(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct product out = {&c->host->weights.altup_out, NULL};
    struct cuda_altup a = step_of(p);
    a.h = c->buf.h;
    int r = cuda_altup_join(p);
    if (cpu_quantized(&out, 1)) a.q = cuda_acts_of(p, c->buf.h_acts);
    for (a.stream = 1; !r && a.stream < a.count; a.stream++) {
        const struct matrix m = matrix_of(out.m, a.stream);
        r = start(p, c->kern.altup.take, &a);
        if (!r) r = cuda_products(p, &(struct product){&m, a.side}, 1, c->buf.h, &c->buf.h_acts);
        if (!r) r = start(p, c->kern.altup.end, &a);
    }
    return r;
}

int cuda_find_altup(struct cuda *c)
{
    const struct cuda_named all[] = {
        {&c->kern.altup.begin, "cuda_altup_begin"},     {&c->kern.altup.predict, "cuda_altup_predict"},
        {&c->kern.altup.correct, "cuda_altup_correct"}, {&c->kern.altup.join, "cuda_altup_join"},
        {&c->kern.altup.take, "cuda_altup_take"},       {&c->kern.altup.end, "cuda_altup_end"}};
    const struct hparams *s = &c->host->base.hparams;
    const unsigned f = sizeof(float);
    if (!s->altup.streams) return 0;
    int r = cuda_kernels(&c->device, all, sizeof(all) / sizeof(*all), (s->dim + 1) * f);
    return r ? r : cuda_kernel(&c->device, &c->kern.sparse_gate, "cuda_sparse_gate", (s->ffn + 1) * f);
}
