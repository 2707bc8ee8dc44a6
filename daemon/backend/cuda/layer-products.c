/* SPDX-License-Identifier: MIT */
/* Products of a layer, and the norm before them: the kernels for the pass's only token do both. */
#include "daemon/backend/cuda/cuda.h"

uint32_t cuda_take_products(const struct cuda_pass *p, const struct product *set, uint32_t n, struct cuda_matmul *a)
{
    uint32_t end = 0;
    a->n = p->n;
    a->k = set->m->k;
    for (; end < n && set[end].m->type == set->m->type; end++) {
        const struct matrix *m = set[end].m;
        a->of[a->n_products++] = (struct cuda_matrix){.panels = cuda_weight(p->c, m->panels),
                                                      .out = set[end].out,
                                                      .rows = m->rows,
                                                      .ld = m->rows,
                                                      .panel_bytes = (uint32_t)m->panel_bytes};
    }
    return end;
}

bool cuda_alone(const struct cuda_pass *p, const struct product *set, uint32_t n)
{
    bool all = p->n == 1 && !cuda_is_adapted(p); /* adapters need the input in memory, and add before activations */
    for (uint32_t i = 0; all && i < n; i++) all = cuda_one_fits(&p->c->kern.kinds[set[i].m->type], set[i].m->k);
    return all;
}

/* The products of this token, of two types, in one kernel. *done: false where there is none. */
static int multiply_two(const struct cuda_pass *p, const struct product *set, uint32_t n, const struct cuda_one *in,
                        bool *done)
{
    struct cuda_two a = {.of = {*in, *in}};
    const uint32_t first = cuda_take_products(p, set, n, &a.of[0].m);
    const struct cuda_kind *kinds = p->c->kern.kinds, *k[2] = {&kinds[set->m->type], NULL};
    *done = false;
    if (first == n || !k[0]->two) return 0;
    k[1] = &kinds[set[first].m->type];
    if (!k[1]->two || cuda_take_products(p, set + first, n - first, &a.of[1].m) + first < n) return 0;
    a.of[1].norm.to = NULL;
    *done = true;
    return cuda_multiply_two(&p->c->device, k, &a);
}

int cuda_multiply_alone(const struct cuda_pass *p, const struct product *set, uint32_t n, const struct cuda_one *in)
{
    bool done;
    int r = multiply_two(p, set, n, in, &done);
    for (uint32_t i = 0; !r && !done && i < n;) {
        struct cuda_one a = *in;
        const enum kern_type type = set[i].m->type;
        if (i) a.norm.to = NULL;
        i += cuda_take_products(p, set + i, n - i, &a.m);
        r = cuda_multiply_one(&p->c->device, &p->c->kern.kinds[type], &a);
    }
    return r;
}

int cuda_products(const struct cuda_pass *p, const struct product *set, uint32_t n, const float *f,
                  const struct cuda_acts *acts)
{
    const struct cuda_acts x = cuda_acts_of(p, *acts);
    int r = 0;
    if (cuda_alone(p, set, n)) {
        const struct cuda_one in = {.m.x = x};
        return cuda_multiply_alone(p, set, n, &in);
    }
    for (uint32_t i = 0; !r && i < n;) {
        const enum kern_type type = set[i].m->type;
        struct cuda_matmul a = {.f = f, .x = x};
        i += cuda_take_products(p, set + i, n - i, &a);
        r = cuda_multiply(&p->c->device, &p->c->kern.kinds[type], &a, CUDA_BEST);
    }
    return r || !cuda_is_adapted(p) ? r : cuda_add_adapters(p, set, n, f);
}

bool cuda_some_plain(const struct product *set, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!kern_type_quantized(set[i].m->type)) return true;
    return false;
}

bool cuda_reads_plain(const struct cuda_pass *p, const struct product *set, uint32_t n)
{
    return cuda_is_adapted(p) || cuda_some_plain(set, n);
}

uint32_t cuda_gate_products(const struct cuda_pass *p)
{
    return p->c->host->base.hparams.desc->block.no_gate ? 1 : 2;
}

struct cuda_gated cuda_gated_of(const struct cuda *c, const struct product in[2])
{
    const bool has = in[1].m->rows > 0;
    const struct product *first = &in[has];
    return (struct cuda_gated){.gate = first->out,
                               .up = has ? in[0].out : NULL,
                               .gate_bias = cuda_weight(c, first->m->bias),
                               .up_bias = has ? cuda_weight(c, in[0].m->bias) : NULL,
                               .k = in[0].m->rows,
                               .act = c->host->base.hparams.desc->activation};
}

/* A recurrent layer reads the input of these products, which are attention's. */
static bool shares_input(const struct cuda_pass *p, const struct product *set)
{
    return p->cpu.w && set->m == &p->cpu.w->q && p->cpu.w->recurrent.out.rows;
}

/* Products of the same input that come later need it quantized: the feed-forward's, or a recurrent layer's. */
static bool shared_quantized(const struct cuda_pass *p, const struct product *first)
{
    struct product set[RECURRENT_INPUTS];
    if (shares_input(p, first)) return cpu_quantized(set, cuda_state_products(p, set));
    if (!p->c->host->base.hparams.parallel) return false;
    const struct product in[] = {{&p->cpu.w->up, NULL}, {&p->cpu.w->gate, NULL}};
    return cpu_quantized(in, cuda_gate_products(p));
}

int cuda_norm_products(struct cuda_pass *p, const struct cuda_norm_by *by, const struct product *set, uint32_t n,
                       const struct cuda_gated *gated)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    struct cuda_norm a = cuda_join_of(p, by);
    if (by->w && cuda_usual_norms(s) && !shares_input(p, set) && cuda_alone(p, set, n)) {
        struct cuda_one in = {.norm = a};
        /* all CTAs read the stream, so the joined one has another place */
        if (p->pending) in.norm.to = p->x = p->x == c->buf.kept ? c->buf.x : c->buf.kept;
        if (gated) in.gated = *gated;
        p->pending = false;
        return cuda_multiply_alone(p, set, n, &in);
    }
    if (cuda_reads_plain(p, set, n) || s->parallel || s->altup.streams || shares_input(p, set)) a.f = c->buf.h;
    if (cpu_quantized(set, n) || shared_quantized(p, set)) a.q = cuda_acts_of(p, c->buf.h_acts);
    int r = cuda_join(p, by, &a);
    return r ? r : cuda_products(p, set, n, c->buf.h, &c->buf.h_acts);
}

int cuda_quantize_rows(const struct cuda_pass *p, const float *x, uint32_t n, uint32_t k, const struct cuda_acts *to)
{
    const struct cuda_gated a = {.gate = x, .q = cuda_acts_of(p, *to), .k = k};
    return cuda_launch(&p->c->device, p->c->kern.quantize, cuda_rows_grid(k, n), &a);
}
