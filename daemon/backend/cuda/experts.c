/* SPDX-License-Identifier: MIT */
/*
 * A mixture of experts, as daemon/backend/cpu/experts.c has it. The router's choices never leave the device: a kernel
 * sorts the rows by expert and divides them into tiles, of which as many are started as there can be at most.
 */
#include "daemon/backend/cuda/cuda.h"
#include <math.h>

#define THREADS   256
#define FEW_ROWS  16 /* of an expert on average, up to which tiles are small */
#define ROWS_STEP 128

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

size_t cuda_expert_rows(const struct hparams *s, size_t tokens)
{
    const size_t n = tokens * s->experts.used, gaps = n < s->experts.n ? n : s->experts.n;
    return (n + gaps * CUDA_ROW_ALIGN + CUDA_TILE_ROWS + ROWS_STEP - 1) / ROWS_STEP * ROWS_STEP;
}

size_t cuda_expert_tiles(const struct hparams *s, size_t tokens)
{
    const size_t n = tokens * s->experts.used;
    return n / CUDA_ROW_ALIGN + (n < s->experts.n ? n : s->experts.n);
}

int cuda_find_experts(struct cuda *c)
{
    const struct cuda_named all[] = {{&c->kern.experts.route, "cuda_route"},
                                     {&c->kern.experts.sort, "cuda_sort"},
                                     {&c->kern.experts.gather, "cuda_gather"},
                                     {&c->kern.experts.gated, "cuda_gated_rows"},
                                     {&c->kern.experts.add, "cuda_add_experts"}};
    if (!c->host->base.hparams.experts.n) return 0;
    int r = cuda_kernels(&c->device, all, sizeof(all) / sizeof(*all), 0);
    for (int t = 0; !r && t < KERN_TYPES; t++) r = cuda_tile_kinds(&c->device, &c->kern.kinds[t], (enum kern_type)t);
    return r;
}

/* The tiles of a pass. */
struct tiles {
    uint32_t n;
    bool large;
};

/* For the products @in and @down. */
static struct tiles tiles_of(const struct cuda_pass *p, const struct product *in, uint32_t n,
                             const struct product *down)
{
    const struct hparams *s = &p->c->host->base.hparams;
    const uint32_t choices = p->n * s->experts.used;
    const bool plain = cuda_some_plain(in, n) || cuda_some_plain(down, 1),
               large = !plain && choices > FEW_ROWS * s->experts.n;
    return (struct tiles){choices / (large ? CUDA_TILE_ROWS : CUDA_ROW_ALIGN) + least(choices, s->experts.n), large};
}

/* buf.moe.route -> the choices, sorted. @list: as in struct cuda_route. */
static int choose(const struct cuda_pass *p, const struct tiles *t, const uint32_t *list)
{
    const struct cuda *c = p->c;
    const struct hparams_experts *x = &c->host->base.hparams.experts;
    const struct cuda_route route = {.scores = c->buf.moe.route,
                                     .list = list,
                                     .bias = cuda_weight(c, p->cpu.w->router.bias),
                                     .choice_bias = cuda_weight(c, p->cpu.w->choice_bias),
                                     .chosen = c->buf.moe.chosen,
                                     .share = c->buf.moe.share,
                                     .experts = x->n,
                                     .used = x->used,
                                     .groups = x->groups,
                                     .groups_used = x->groups_used,
                                     .scale = x->scale,
                                     .sigmoid = x->sigmoid,
                                     .of_all = x->of_all,
                                     .scaled_input = x->scaled_input};
    const struct cuda_sort sort = {.chosen = c->buf.moe.chosen,
                                   .row = c->buf.moe.row,
                                   .tiles = c->buf.moe.tiles,
                                   .n = p->n * x->used,
                                   .experts = x->n,
                                   .n_tiles = t->n,
                                   .most = t->large ? CUDA_TILE_ROWS : CUDA_ROW_ALIGN};
    int r = cuda_launch(&c->device, c->kern.experts.route, (struct cuda_grid){p->n, 1, CUDA_WARP, 0}, &route);
    return r ? r : cuda_launch(&c->device, c->kern.experts.sort, (struct cuda_grid){1, 1, CUDA_EXPERTS, 0}, &sort);
}

static struct cuda_grid rows_grid(const struct cuda_pass *p, uint32_t k)
{
    return cuda_rows_grid(k, p->n * p->c->host->base.hparams.experts.used);
}

/* buf.h -> the inputs of the rows, for the products @in. */
static int gather(const struct cuda_pass *p, const struct product *in, uint32_t n)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    struct cuda_gather a = {.x = c->buf.h,
                            .share = s->experts.scaled_input ? c->buf.moe.share : NULL,
                            .row = c->buf.moe.row,
                            .used = s->experts.used,
                            .k = s->dim};
    if (cuda_some_plain(in, n)) a.f = c->buf.moe.mix;
    if (cpu_quantized(in, n)) a.q = c->buf.moe.mix_acts;
    return cuda_launch(&c->device, c->kern.experts.gather, rows_grid(p, a.k), &a);
}

/* The products @set of the rows of @f, or of @acts. */
static int multiply(const struct cuda_pass *p, const struct tiles *t, const struct product *set, uint32_t n,
                    const float *f, const struct cuda_acts *acts)
{
    const struct cuda *c = p->c;
    int r = 0;
    for (uint32_t i = 0; !r && i < n;) {
        const enum kern_type type = set[i].m->type;
        struct cuda_group a = {.m = {.f = f, .x = *acts}, .tiles = c->buf.moe.tiles};
        i += cuda_take_products(p, set + i, n - i, &a.m);
        r = cuda_multiply_tiles(&c->device, &c->kern.kinds[type], &a, t->n, t->large);
    }
    return r;
}

/* The rows' activated gates, for the product @down. */
static int activate(const struct cuda_pass *p, const struct product in[2], const struct product *down)
{
    const struct cuda *c = p->c;
    struct cuda_gated_rows a = {.g = cuda_gated_of(c, in), .row = c->buf.moe.row, .chosen = c->buf.moe.chosen};
    if (cpu_quantized(down, 1))
        a.g.q = c->buf.moe.gated_acts;
    else
        a.g.f = c->buf.moe.gate;
    return cuda_launch(&c->device, c->kern.experts.gated, rows_grid(p, a.g.k), &a);
}

/* A feed-forward that is no mixture: of buf.h, with the products @in, up and gate, whose results are in buf. */
static int feed_forward(const struct cuda_pass *p, const struct product in[2], const struct product *down)
{
    const struct cuda *c = p->c;
    struct cuda_gated a = cuda_gated_of(c, in);
    if (cpu_quantized(down, 1)) a.q = cuda_acts_of(p, c->buf.gated_acts);
    if (cuda_reads_plain(p, down, 1)) a.f = c->buf.gate;
    int r = cuda_products(p, in, in[1].m->rows ? 2 : 1, c->buf.h, &c->buf.h_acts);
    if (!r) r = cuda_launch(&c->device, c->kern.gated, cuda_rows_grid(a.k, p->n), &a);
    return r ? r : cuda_products(p, down, 1, c->buf.gate, &c->buf.gated_acts);
}

/* What the shared expert multiplies with. */
static uint32_t shared_products(const struct cuda_pass *p, struct product in[2])
{
    const struct layer *w = p->cpu.w;
    in[0] = (struct product){&w->shared_up, p->c->buf.up};
    in[1] = (struct product){&w->shared_gate, p->c->buf.gate};
    return w->shared_gate.rows ? 2 : 1;
}

/* buf.h -> buf.h */
static int shared_expert(const struct cuda_pass *p)
{
    const struct product down = {&p->cpu.w->shared_down, p->c->buf.h};
    struct product in[2];
    shared_products(p, in);
    return feed_forward(p, in, &down);
}

static int add_experts(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const struct layer *w = p->cpu.w;
    const struct cuda_add_experts a = {.rows = c->buf.moe.mix,
                                       .bias = cuda_weight(c, w->down.bias),
                                       .scale = cuda_weight(c, w->beside.scale),
                                       .share = s->experts.scaled_input ? NULL : c->buf.moe.share,
                                       .row = c->buf.moe.row,
                                       .chosen = c->buf.moe.chosen,
                                       .score = w->shared_router.rows ? c->buf.moe.shared : NULL,
                                       .h = c->buf.h,
                                       .used = s->experts.used,
                                       .k = s->dim,
                                       .shared = s->experts.shared_ffn > 0};
    return cuda_launch(&c->device, c->kern.experts.add, (struct cuda_grid){cuda_divide(a.k, THREADS), p->n, THREADS, 0},
                       &a);
}

int cuda_early_router(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct product router = {&p->cpu.w->router, c->buf.moe.route};
    int r = 0;
    if (cpu_quantized(&router, 1))
        r = cuda_quantize_rows(p, p->x, p->n, c->host->base.hparams.dim, &c->buf.moe.mix_acts);
    return r ? r : cuda_products(p, &router, 1, p->x, &c->buf.moe.mix_acts);
}

/* The residual stream's norm -> buf.h; unless the router is an early one, the scores of the routers -> buf.moe. */
static int score(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const struct layer *w = p->cpu.w;
    const struct product routers[] = {{&w->router, c->buf.moe.route}, {&w->shared_router, c->buf.moe.shared}};
    const struct cuda_norm_by by = {.w = w->ffn_norm, .bias = w->ffn_norm_bias};
    const uint32_t n = s->desc->experts.early ? 0 : w->shared_router.rows ? 2 : 1;
    struct product shared[2];
    struct cuda_norm a = cuda_join_of(p, &by);
    a.f = c->buf.h;
    if (cpu_quantized(routers, n) || (s->experts.shared_ffn && cpu_quantized(shared, shared_products(p, shared))))
        a.q = cuda_acts_of(p, c->buf.h_acts);
    int r = cuda_join(p, &by, &a);
    return r || !n ? r : cuda_products(p, routers, n, c->buf.h, &c->buf.h_acts);
}

/* The choices of buf.moe.route, and the experts of buf.h -> buf.h. */
static int chosen_experts(struct cuda_pass *p, const uint32_t *list)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    const struct product in[] = {{&w->up, c->buf.moe.up}, {&w->gate, c->buf.moe.gate}};
    const struct product down = {&w->down, c->buf.moe.mix};
    const uint32_t n = w->gate.rows ? 2 : 1;
    const struct tiles t = tiles_of(p, in, n, &down);
    int r = choose(p, &t, list);
    if (!r) r = gather(p, in, n);
    if (!r) r = multiply(p, &t, in, n, c->buf.moe.mix, &c->buf.moe.mix_acts);
    if (!r) r = activate(p, in, &down);
    if (!r) r = multiply(p, &t, &down, 1, c->buf.moe.gate, &c->buf.moe.gated_acts);
    if (!r && c->host->base.hparams.experts.shared_ffn) r = shared_expert(p);
    return r ? r : add_experts(p);
}

/* --- an ordinary feed-forward beside them: daemon/backend/cpu/experts-beside.c --- */

/* x -> buf.beside; what is pending is joined first. */
static int feed_forward_beside(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    const struct product in[] = {{&w->beside.up, c->buf.up}, {&w->beside.gate, c->buf.gate}};
    const struct product down = {&w->beside.down, c->buf.beside};
    const struct cuda_norm_by by = {.w = w->ffn_norm};
    struct cuda_norm a = cuda_join_of(p, &by);
    a.f = c->buf.h;
    if (cpu_quantized(in, 2)) a.q = cuda_acts_of(p, c->buf.h_acts);
    int r = cuda_join(p, &by, &a);
    return r ? r : feed_forward(p, in, &down);
}

/* buf.h = the norm of @x with the weights @w. */
static int norm_to_h(const struct cuda_pass *p, float *x, const float *w)
{
    const struct hparams *s = &p->c->host->base.hparams;
    const struct cuda_norm a = {
        .x = x, .w = cuda_weight(p->c, w), .f = p->c->buf.h, .eps = s->rms_eps, .residual = 1, .k = s->dim};
    return cuda_start_norm(p->c, p->n, &a);
}

/* The scores of a router with a norm of its own. */
static int score_normed(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const uint32_t k = c->host->base.hparams.dim;
    const struct product router = {&p->cpu.w->router, c->buf.moe.route};
    const struct cuda_logits by = {.x = c->buf.h, .scale = (float)(1 / sqrt((double)k)), .k = k};
    int r = norm_to_h(p, p->x, p->cpu.w->beside.router_norm);
    if (!r)
        r = cuda_launch(&c->device, c->kern.logits, (struct cuda_grid){cuda_divide(k, THREADS), p->n, THREADS, 0}, &by);
    if (!r && cpu_quantized(&router, 1)) r = cuda_quantize_rows(p, c->buf.h, p->n, k, &c->buf.h_acts);
    return r ? r : cuda_products(p, &router, 1, c->buf.h, &c->buf.h_acts);
}

static int experts_beside(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct layer_beside *w = &p->cpu.w->beside;
    const struct cuda_norm add = {.x = c->buf.h,
                                  .h = c->buf.beside,
                                  .post = cuda_weight(c, w->post_norm),
                                  .eps = c->host->base.hparams.rms_eps,
                                  .residual = 1,
                                  .k = c->host->base.hparams.dim};
    int r = feed_forward_beside(p);
    if (!r) r = score_normed(p);
    if (!r) r = norm_to_h(p, p->x, w->experts_norm);
    if (!r) r = chosen_experts(p, NULL);
    if (!r) r = norm_to_h(p, c->buf.h, w->experts_post_norm);
    return r ? r : cuda_start_norm(c, p->n, &add);
}

int cuda_compute_experts(struct cuda_pass *p, const uint32_t *list)
{
    if (p->c->host->base.hparams.desc->experts.beside) return experts_beside(p);
    int r = score(p);
    return r ? r : chosen_experts(p, list);
}
