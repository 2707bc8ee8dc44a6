/* SPDX-License-Identifier: MIT */
/* Products of the batch with matrices: panels and tokens are cut into pieces of work for all threads. Which pieces, and
 * which thread computes them, changes no result. */
#include "daemon/backend/cpu/cpu.h"
#include <assert.h>
#include <string.h>

#define FEW        6                 /* tokens, with which a product is limited by memory */
#define GATED_WIDE (32 * KERN_BLOCK) /* most columns of gate and up that one call computes */

/* A product, or several with one input. Its units are numbered group by group. */
struct job {
    struct pass *p;
    const struct product *set; /* a unit is a panel; of all products, one after the other */
    uint32_t n;
    const struct matrix *gate, *up; /* or a unit is KERN_BLOCK rows of both */
    const struct acts *in;
    const struct group *groups; /* of rows; NULL: tiles of the batch's rows */
    uint32_t n_groups, rows, tile;
    uint32_t units; /* of one group */
    bool adapted;   /* rows of the batch have adapters: lora_low has computed its part */
};

/* --- cutting --- */

/* Cut the @rows rows of a batch into tiles. The last tile also has those left over: as in kern_acts. */
static void cut_rows(struct job *j, uint32_t rows)
{
    const uint32_t groups = rows < KERN_GROUP ? 1 : rows / KERN_GROUP, threads = compute_pool_threads(j->p->c->pool);
    j->rows = rows;
    j->tile = j->units * (groups / 2) < threads * PANELS_GRAIN ? KERN_GROUP : TOKEN_TILE;
    j->n_groups = (groups * KERN_GROUP + j->tile - 1) / j->tile;
}

static struct group group_of(const struct job *j, uint32_t i)
{
    if (j->groups) return j->groups[i];
    const uint32_t first = i * j->tile;
    return (struct group){.first = first, .n = i + 1 < j->n_groups ? j->tile : j->rows - first};
}

/* Run @fn over the units of all groups, in pieces of @least to @most units. */
static void run_job(struct job *j, compute_fn fn, uint32_t least, uint32_t most)
{
    cpu_run(j->p, j->p->w ? TIMING_PROJECTIONS : TIMING_LOGITS, fn, j, j->units * j->n_groups, least, most);
}

/* Rows [t, t + n) of one group, from whole groups of kern_acts. */
static struct kern_acts acts_of(const struct acts *x, size_t t, size_t n)
{
    const size_t nb = x->k / KERN_BLOCK;
    return (struct kern_acts){
        .f = x->f + t * x->k, .q = x->q + t * x->k, .d = x->d + t * nb * 2, .s = x->s + t * nb * 2, .n = n, .k = x->k};
}

/* Tokens of the next tile of @left rows. */
static size_t tile_of(size_t left)
{
    return left <= TILE_MOST ? left : TOKEN_TILE;
}

/* out[t * ld + i] for the rows i of @m from @row on. */
static void multiply(const struct job *j, const struct matrix *m, const struct group *g, const struct kern_acts *in,
                     uint32_t row, uint32_t rows, float *out, size_t ld)
{
    const size_t panel = (size_t)g->at * m->n_panels + row / KERN_ROWS;
    j->p->c->kern->matmul[m->type](out, ld, m->panels + panel * m->panel_bytes, in, rows);
}

/* --- products --- */

/* @i: number of the product. */
static void multiply_panels(const struct job *j, uint32_t i, const struct group *g, uint32_t begin, uint32_t end,
                            uint32_t thread)
{
    const struct product *y = &j->set[i];
    const uint32_t row = begin * KERN_ROWS, all = y->m->rows - row, most = (end - begin) * KERN_ROWS;
    for (size_t t = g->first, last = t + g->n, n; t < last; t += n) {
        n = tile_of(last - t);
        const struct kern_acts in = acts_of(j->in, t, n);
        const uint32_t rows = all < most ? all : most;
        float *out = y->out + t * y->m->rows + row;
        multiply(j, y->m, g, &in, row, rows, out, y->m->rows);
        if (!j->adapted) continue;
        lora_add(j->p, &(struct lora_piece){y->m, i, (uint32_t)t, (uint32_t)n, row, rows, out, y->m->rows}, thread);
    }
}

static void run_products(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct job *j = ctx;
    while (begin < end) {
        const struct group g = group_of(j, begin / j->units);
        uint32_t first = begin / j->units * j->units; /* number of the product's first panel */
        for (uint32_t i = 0; i < j->n && begin < end; first += j->set[i].m->n_panels, i++) {
            const uint32_t last = first + j->set[i].m->n_panels, to = last < end ? last : end;
            if (begin >= last) continue;
            multiply_panels(j, i, &g, begin - first, to - first, thread);
            begin = to;
        }
    }
}

static void products(struct job *j, uint32_t rows)
{
    for (uint32_t i = 0; i < j->n; i++) j->units += j->set[i].m->n_panels;
    if (!j->groups) cut_rows(j, rows);
    /* Most tiles of several tokens are pairs. A thread with few panels would often wait for another one's last pair. */
    const bool pairs = j->rows > FEW && j->units * j->n_groups >= compute_pool_threads(j->p->c->pool) * PANELS_GRAIN;
    run_job(j, run_products, pairs ? 2 : 1, PANELS_GRAIN);
}

void cpu_products(struct pass *p, const struct product *set, uint32_t n, const struct acts *in, uint32_t rows)
{
    lora_low(p, set, n, in);
    products(&(struct job){.p = p, .set = set, .n = n, .in = in, .adapted = lora_any(p)}, rows);
}

void cpu_group_products(struct pass *p, const struct product *set, uint32_t n, const struct acts *in,
                        const struct group *groups, uint32_t n_groups)
{
    products(&(struct job){.p = p, .set = set, .n = n, .in = in, .groups = groups, .n_groups = n_groups}, 0);
}

/* --- gate and up --- */

static void relu_mul(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) gate[i] = (gate[i] < 0 ? 0 : gate[i]) * up[i];
}

/* @up NULL: there is no gate. */
static void activate(const struct pass *p, float *gate, const float *up, size_t n)
{
    const struct kernels *k = p->c->kern;
    switch (p->c->base.hparams.desc->activation) {
    case ACT_SILU:
        k->silu_mul(gate, up, n);
        break;
    case ACT_GELU:
        up ? k->gelu_mul(gate, up, n) : k->gelu(gate, n);
        break;
    case ACT_GELU_ERF:
        k->gelu_erf(gate, up, n);
        break;
    case ACT_XIELU:
        k->xielu(gate, p->w->xielu, n);
        break;
    case ACT_RELU:
        relu_mul(gate, up, n);
        break;
    case ACT_RELU_SQR:
        k->relu_sqr(gate, n);
        break;
    case ACT_CLAMPED:
        k->swiglu_clamped(gate, up, n);
        break;
    }
}

/* @n rows of @m, from row @row on: rows of @x[@tokens][n] get their bias. */
static void add_bias(const struct job *j, const struct matrix *m, const struct group *g, uint32_t row, uint32_t n,
                     float *x, size_t tokens)
{
    if (!m->bias) return;
    for (size_t t = 0; t < tokens; t++) j->p->c->kern->add(x + t * n, m->bias + (size_t)g->at * m->rows + row, n);
}

/* Columns [row, row + n) of @tokens rows of scratch.gated, from row @t of @g on, where a group of kern_acts begins:
 * x[tokens][n]. */
static void store_columns(const struct job *j, const struct group *g, size_t t, size_t tokens, uint32_t row, uint32_t n,
                          const float *x)
{
    const struct pass *p = j->p;
    const struct acts *out = &p->c->scratch.gated;
    if (!p->quantize || j->adapted) /* adapters read the f32 values */
        for (size_t i = 0; i < tokens; i++) memcpy(out->f + (t + i) * out->k + row, x + i * n, n * sizeof(*x));
    if (!p->quantize) return;
    if (n > KERN_BLOCK) {
        for (size_t i = 0; i < tokens; i++) cpu_quantize(p, out, g, t + i, row, x + i * n, n);
    } else { /* the blocks of a group's tokens follow each other */
        const size_t nb = out->k / KERN_BLOCK;
        for (size_t i = 0, step; i < tokens; i += step) {
            const struct kern_act a = kern_act(g->n, t + i - g->first, nb);
            const size_t at = g->first * nb + a.at + row / KERN_BLOCK * a.step;
            step = a.step;
            p->c->kern->quantize(out->q + at * KERN_BLOCK, out->d + at * 2, out->s + at * 2, x + i * n, step * n, 1);
        }
    }
}

/* Number of columns that one call computes for @tokens: scratch.columns has room for them. */
static uint32_t gated_columns(size_t tokens)
{
    const uint32_t room = GATED_VALUES / (uint32_t)tokens / KERN_BLOCK * KERN_BLOCK;
    return tokens > FEW ? KERN_BLOCK : room < GATED_WIDE ? room : GATED_WIDE;
}

/* Compute columns [row, row + n) of these rows. */
static void gate_columns(const struct job *j, const struct group *g, size_t t, size_t tokens, uint32_t row, uint32_t n,
                         uint32_t thread)
{
    assert(tokens * n <= GATED_VALUES);
    const struct kern_acts in = acts_of(j->in, t, tokens);
    float *gate = j->p->c->scratch.columns + (size_t)thread * 2 * GATED_VALUES, *up = gate + GATED_VALUES;
    multiply(j, j->gate, g, &in, row, n, gate, n);
    if (j->up) multiply(j, j->up, g, &in, row, n, up, n);
    struct lora_piece y = {j->gate, 0, (uint32_t)t, (uint32_t)tokens, row, n, gate, n};
    if (j->adapted) lora_add(j->p, &y, thread);
    y.m = j->up, y.product = 1, y.out = up;
    if (j->adapted && j->up) lora_add(j->p, &y, thread);
    add_bias(j, j->gate, g, row, n, gate, tokens);
    if (j->up) add_bias(j, j->up, g, row, n, up, tokens);
    activate(j->p, gate, j->up ? up : NULL, tokens * n);
    store_columns(j, g, t, tokens, row, n, gate);
}

static void run_gated(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct job *j = ctx;
    while (begin < end) {
        const struct group g = group_of(j, begin / j->units);
        const uint32_t first = begin / j->units * j->units, to = end < first + j->units ? end : first + j->units;
        const uint32_t last_row = (to - first) * KERN_BLOCK, rows = j->gate->rows;
        for (size_t t = g.first, last = t + g.n, tokens; t < last; t += tokens) {
            tokens = tile_of(last - t);
            const uint32_t most = gated_columns(tokens), stop = last_row < rows ? last_row : rows;
            for (uint32_t row = (begin - first) * KERN_BLOCK, n; row < stop; row += n) {
                n = stop - row < most ? stop - row : most;
                gate_columns(j, &g, t, tokens, row, n, thread);
            }
        }
        begin = to;
    }
}

void cpu_gated(struct pass *p, const struct matrix *gate, const struct matrix *up, const struct acts *in,
               const struct group *groups, uint32_t n_groups)
{
    struct job j = {.p = p, .gate = gate, .up = up, .in = in, .groups = groups, .n_groups = n_groups};
    const struct product set[] = {{gate, NULL}, {up, NULL}};
    if (!groups) lora_low(p, set, up ? 2 : 1, in);
    j.adapted = !groups && lora_any(p);
    p->c->scratch.gated.k = gate->rows;
    j.units = (gate->rows + KERN_BLOCK - 1) / KERN_BLOCK;
    if (!groups) cut_rows(&j, p->n);
    run_job(&j, run_gated, 1, !groups && p->n <= FEW ? GATED_WIDE / KERN_BLOCK : 2);
}

/* --- quantized input --- */

bool cpu_quantized(const struct product *set, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (kern_type_quantized(set[i].m->type)) return true;
    return false;
}

void cpu_quantize(const struct pass *p, const struct acts *out, const struct group *g, size_t row, size_t column,
                  const float *x, size_t n)
{
    const size_t nb = out->k / KERN_BLOCK;
    const struct kern_act a = kern_act(g->n, row - g->first, nb);
    const size_t at = g->first * nb + a.at + column / KERN_BLOCK * a.step;
    if (p->quantize) p->c->kern->quantize(out->q + at * KERN_BLOCK, out->d + at * 2, out->s + at * 2, x, n, a.step);
}

void cpu_quantize_row(const struct pass *p, const struct acts *x, size_t row)
{
    cpu_quantize(p, x, &(struct group){.n = p->n}, row, 0, x->f + row * x->k, x->k);
}

void cpu_run(const struct pass *p, enum timing_part part, compute_fn fn, void *ctx, uint32_t n, uint32_t least,
             uint32_t most)
{
    struct timing *t = p->c->base.timing;
    compute_pool_time(p->c->pool, t ? &t[part] : NULL);
    compute_pool_run(p->c->pool, fn, ctx, n, least, most);
}
