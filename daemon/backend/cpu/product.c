/* SPDX-License-Identifier: MIT */
/* Products of the batch with matrices: their panels are cut into pieces of work for all threads. */
#include "daemon/backend/cpu/cpu.h"

#define TOKEN_TILE   (2 * KERN_GROUP) /* tokens a few panels are multiplied with before the next tokens */
#define PANELS_GRAIN 8                /* those few panels */

/* Matrices with one input: their panels are numbered through, group by group, so that they are one piece of work. */
struct products {
    const struct kernels *kern;
    const struct product *set;
    uint32_t n;
    struct kern_acts in; /* row 0 of it */
    const struct group *groups;
    uint32_t panels; /* of the set, for one group */
};

static void multiply_run(const struct products *p, const struct product *y, const struct group *g, uint32_t begin,
                         uint32_t end)
{
    const struct matrix *m = y->m;
    size_t nb = p->in.k / KERN_BLOCK;
    uint32_t row = begin * KERN_ROWS, all = m->rows - row, most = (end - begin) * KERN_ROWS;
    uint32_t rows = all < most ? all : most;
    const uint8_t *panels = m->panels + ((size_t)g->at * m->n_panels + begin) * m->panel_bytes;
    for (size_t t = g->first, last = t + g->n, n; t < last; t += n) {
        n = last - t < TOKEN_TILE + KERN_GROUP ? last - t : TOKEN_TILE; /* whole groups of kern_acts */
        struct kern_acts in = {.f = p->in.f + t * p->in.k,
                               .q = p->in.q + t * p->in.k,
                               .d = p->in.d + t * nb,
                               .s = p->in.s + t * nb * 2,
                               .n = n,
                               .k = p->in.k};
        p->kern->matmul[m->type](y->out + t * m->rows + row, m->rows, panels, &in, rows);
    }
}

/* Panels [begin, end) of one group. */
static void multiply_group(const struct products *p, const struct group *g, uint32_t begin, uint32_t end)
{
    uint32_t first = 0; /* number of the product's first panel */
    for (uint32_t i = 0; i < p->n && begin < end; first += p->set[i].m->n_panels, i++) {
        uint32_t last = first + p->set[i].m->n_panels;
        while (begin < end && begin < last) {
            uint32_t to = begin + PANELS_GRAIN;
            if (to > end) to = end;
            if (to > last) to = last;
            multiply_run(p, &p->set[i], g, begin - first, to - first);
            begin = to;
        }
    }
}

static void multiply(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct products *p = ctx;
    while (begin < end) {
        uint32_t group = begin / p->panels, first = group * p->panels, last = first + p->panels;
        if (last > end) last = end;
        multiply_group(p, &p->groups[group], begin - first, last - first);
        begin = last;
    }
}

void cpu_group_products(struct pass *p, const struct product *set, uint32_t n, const float *in,
                        const struct group *groups, uint32_t n_groups)
{
    struct cpu *c = p->c;
    struct scratch *s = &c->scratch;
    struct products job = {.kern = c->kern,
                           .set = set,
                           .n = n,
                           .in = {.f = in, .q = s->aq, .d = s->ad, .s = s->as, .k = set[0].m->k},
                           .groups = groups};
    for (uint32_t i = 0; i < n; i++) job.panels += set[i].m->n_panels;
    uint32_t grain = job.panels * n_groups / (compute_pool_threads(c->pool) * 4);
    cpu_run(p, p->w ? TIMING_PROJECTIONS : TIMING_LOGITS, multiply, &job, job.panels * n_groups,
            grain < 1              ? 1
            : grain < PANELS_GRAIN ? grain
                                   : PANELS_GRAIN);
}

void cpu_products(struct pass *p, const struct product *set, uint32_t n, const float *in, size_t rows)
{
    cpu_group_products(p, set, n, in, &(struct group){.n = (uint32_t)rows}, 1);
}

bool cpu_quantized(const struct product *set, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (kern_type_quantized(set[i].m->type)) return true;
    return false;
}

void cpu_quantize_grouped(const struct pass *p, const float *x, size_t k, const struct group *g, size_t row)
{
    struct scratch *s = &p->c->scratch;
    const size_t nb = k / KERN_BLOCK;
    const struct kern_act a = kern_act(g->n, row - g->first, nb);
    const size_t at = g->first * nb + a.at;
    if (p->quantize) p->c->kern->quantize(s->aq + at * KERN_BLOCK, s->ad + at, s->as + at * 2, x, k, a.step);
}

void cpu_quantize_row(const struct pass *p, const float *x, size_t k, size_t row)
{
    cpu_quantize_grouped(p, x, k, &(struct group){.n = p->n}, row);
}

void cpu_run(const struct pass *p, enum timing_part part, compute_fn fn, void *ctx, uint32_t n, uint32_t grain)
{
    struct timing *t = p->c->base.timing;
    compute_pool_time(p->c->pool, t ? &t[part] : NULL);
    compute_pool_run(p->c->pool, fn, ctx, n, grain);
}
