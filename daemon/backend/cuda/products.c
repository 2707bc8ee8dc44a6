/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cuda/products.h"
#include "kernels/panel.h"
#include <string.h>

#define ONE_SHARED     (216u << 10) /* most shared memory of cuda_one_* */
#define ONE_APART      (117u << 10) /* more than half of a multiprocessor's */
#define ONE_SMALL      (32u << 10)  /* bytes of a piece, at most: see fit_one() */
#define FEW_THREADS    256          /* or twice as many, where there are few CTAs */
#define FEW_SHARED     (47u << 10)
#define SEVERAL_SHARED (75u << 10)
#define BATCH_SHARED   (216u << 10)
#define BATCH_TOKENS   16 /* of a warp, at most */
#define BATCH_WARPS    4  /* most warps of a CTA */
#define SPLIT_TOKENS   16
#define HOLD_PIECE     16         /* blocks of a piece of cuda_hold*_*, at least */
#define HOLD_SMALL     (4u << 10) /* bytes of a piece that is too small */
#define HOLD_AHEAD     128        /* blocks of the pieces that are copied at once */
#define FEW_TOKENS     8          /* of a CTA of cuda_few_*, half of those of cuda_several_* */
#define MANY_PANELS    8          /* of a CTA of cuda_many_* */
#define SOME_THREADS   256
#define MANY_TOKENS    128
#define SOME_TOKENS    64
#define FLOAT_TOKENS   16
#define WIDE_SHARED    (226u << 10)

/* The kernel @which of a kind of type in kernels/cuda/form.cuh, whose name is w, the width, and letters for the rest.
 */
static int find_kind(const struct cuda_device *d, CUfunction *out, const char *which, const struct panel_form *f,
                     unsigned shared)
{
    static const char *const scales[] = {
        [PANEL_PLAIN] = "", [PANEL_SUB] = "s", [PANEL_HALVES] = "h", [PANEL_E8M0] = "e"};
    const char *table = f->table && f->scales != PANEL_E8M0 ? "t" : "";
    return cuda_kernel_of(d, out, shared, "cuda_%s_w%u%s%s%s", which, f->width, scales[f->scales], f->m ? "m" : "",
                          table);
}

static struct cuda_form form_of(const struct panel_form *f)
{
    struct cuda_form to = {.group = f->group,
                           .step = f->step,
                           .pairs = f->pairs,
                           .bits = f->bits,
                           .sub = f->sub,
                           .sub_step = f->sub_step,
                           .d = f->d,
                           .m = f->m,
                           .shift = f->blocks == 8 ? 3 : 0,
                           .bias = f->bias,
                           .unit = panel_unit(f)};
    if (f->table)
        memcpy(to.table, f->table, sizeof(to.table));
    else
        to.kind = CUDA_KIND(f->width, f->scales, f->m > 0);
    return to;
}

/* One scale for a block, no offset and no table. */
static bool is_plain(const struct panel_form *f)
{
    return f->scales == PANEL_PLAIN && !f->m && !f->table;
}

int cuda_kind(const struct cuda_device *d, struct cuda_kind *out, enum kern_type type)
{
    static const char *const floats[] = {
        [KERN_F32] = "cuda_float_f32", [KERN_F16] = "cuda_float_f16", [KERN_BF16] = "cuda_float_bf16"};
    static const char *const batches[] = {"eight", "sixteen", "double"};
    const struct panel_form *f = &panel_forms[type];
    *out = (struct cuda_kind){0};
    if (!kern_type_quantized(type)) return cuda_kernel(d, &out->few, floats[type], 0);
    out->form = form_of(f);
    out->width = f->width;
    out->halves = f->scales == PANEL_HALVES;
    out->plain = is_plain(f);
    out->many_threads = f->scales == PANEL_HALVES ? 256 : 128;
    int r = find_kind(d, &out->few, "few", f, 0);
    if (!r && d->early) r = find_kind(d, &out->one, "one", f, ONE_SHARED);
    if (!r && d->early && cuda_can_mix(out->form.kind)) r = cuda_kernel(d, &out->two, "cuda_two", ONE_SHARED);
    for (size_t i = 0; !r && d->early && i < 3; i++) r = find_kind(d, &out->batch[i], batches[i], f, BATCH_SHARED);
    if (!r && d->early) r = find_kind(d, &out->half, "half", f, WIDE_SHARED);
    if (!r && d->early) r = find_kind(d, &out->wide, "wide", f, WIDE_SHARED);
    for (size_t i = 0; !r && d->early && i < 2; i++) {
        r = find_kind(d, &out->split[i], i ? "split16" : "split8", f, BATCH_SHARED);
        if (!r) r = find_kind(d, &out->hold[i], i ? "hold16" : "hold8", f, BATCH_SHARED);
    }
    if (!r) r = find_kind(d, &out->several, "several", f, SEVERAL_SHARED);
    if (!r) r = find_kind(d, &out->some, "some", f, CUDA_MANY_SHARED(f->width, SOME_TOKENS));
    return r ? r : find_kind(d, &out->many, "many", f, CUDA_MANY_SHARED(f->width, MANY_TOKENS));
}

/* Bytes of shared memory that cuda_few_* needs for a block of columns: sums of all outputs, scales of all rows, and for
 * types with an offset the same of these; scales of the tokens; the sums of the tokens' codes where all rows share
 * them. */
static unsigned few_bytes(const struct cuda_form *f, unsigned tokens)
{
    const unsigned rows = CUDA_ROWS * sizeof(float);
    return (f->m ? (2 * tokens + 2) * rows : (tokens + 1) * rows) + tokens * (unsigned)sizeof(float);
}

static int multiply_few(const struct cuda_device *d, const struct cuda_kind *k, struct cuda_matmul *a, bool several)
{
    const unsigned most = several ? 2 * FEW_TOKENS : FEW_TOKENS, shared = several ? SEVERAL_SHARED : FEW_SHARED;
    const unsigned tokens = a->n < most ? a->n : most, groups = cuda_divide(a->n, most);
    const unsigned each = few_bytes(&a->form, tokens), blocks = a->k / CUDA_WARP;
    const unsigned threads = a->panels * groups <= 2 * (unsigned)d->processors ? 2 * FEW_THREADS : FEW_THREADS;
    a->chunk = shared / each < blocks ? shared / each : blocks;
    return cuda_launch(d, several ? k->several : k->few,
                       (struct cuda_grid){a->panels, groups, threads, a->chunk * each}, a);
}

/* The grids of cuda_some_* and cuda_many_*. */
static struct cuda_grid some_grid(const struct cuda_kind *k, const struct cuda_matmul *m)
{
    return (struct cuda_grid){cuda_divide(m->panels, MANY_PANELS), cuda_divide(m->n, SOME_TOKENS), SOME_THREADS,
                              CUDA_MANY_SHARED(k->width, SOME_TOKENS)};
}

static struct cuda_grid many_grid(const struct cuda_kind *k, const struct cuda_matmul *m)
{
    return (struct cuda_grid){cuda_divide(m->panels, MANY_PANELS), cuda_divide(m->n, MANY_TOKENS), k->many_threads,
                              CUDA_MANY_SHARED(k->width, MANY_TOKENS)};
}

/* Roughly the time of a grid, two CTAs of which a multiprocessor computes in a time of @both, one alone in @alone. */
static unsigned time_of(const struct cuda_device *d, struct cuda_grid g, unsigned both, unsigned alone)
{
    const unsigned n = (unsigned)d->processors, rest = g.x * g.y % (2 * n);
    return g.x * g.y / (2 * n) * both + (rest > n ? both : rest ? alone : 0);
}

/* The same of multiply_batch(). */
static unsigned batch_time(const struct cuda_device *d, const struct cuda_matmul *m)
{
    return 42 + 5 * m->panels * cuda_divide(m->n, BATCH_TOKENS) / (unsigned)d->processors;
}

/* The best kernel of those for narrow activations of more than SPLIT_TOKENS tokens. Times: bench-cuda, H200, Q4_0. */
static enum cuda_which best_of(const struct cuda_device *d, const struct cuda_kind *k, const struct cuda_matmul *m)
{
    const unsigned some = time_of(d, some_grid(k, m), 220, 150), many = time_of(d, many_grid(k, m), 370, 270);
    if (k->batch[0] && batch_time(d, m) < (some < many ? some : many)) return CUDA_USE_BATCH;
    if (m->n <= CUDA_FEW_MOST && !k->batch[0]) return m->n > FEW_TOKENS ? CUDA_USE_SEVERAL : CUDA_USE_FEW;
    return some <= many ? CUDA_USE_SOME : CUDA_USE_MANY;
}

/* Number of tiles of CUDA_WIDE_PANELS panels by @tokens tokens. */
static unsigned wide_tiles(const struct cuda_matmul *m, unsigned tokens)
{
    return cuda_divide(m->panels, CUDA_WIDE_PANELS) * cuda_divide(m->n, tokens);
}

static int multiply_wide(const struct cuda_device *d, const struct cuda_kind *k, const struct cuda_matmul *m,
                         enum cuda_which which)
{
    const unsigned processors = (unsigned)d->processors;
    /* Measured, H200: a tile of half the tokens takes as long as a whole one, or with more to add for a sum, less. */
    const unsigned each = k->form.m || k->halves ? 81 : 104;
    const unsigned wide = cuda_divide(wide_tiles(m, CUDA_WIDE_TILE), processors) * 100,
                   half = cuda_divide(wide_tiles(m, CUDA_WIDE_TILE / 2), processors) * each;
    const bool halves = which == CUDA_USE_HALF || (which == CUDA_BEST && half < wide);
    const unsigned tokens = halves ? CUDA_WIDE_TILE / 2 : CUDA_WIDE_TILE,
                   stages = CUDA_WIDE_STAGES * CUDA_WIDE_STAGE(tokens);
    struct cuda_wide a = {
        .m = *m, .tiles = wide_tiles(m, tokens), .piece = (CUDA_WIDE_PIECE >> m->form.shift) * m->form.group};
    const unsigned slot = CUDA_WIDE_PANELS * a.piece, room = (WIDE_SHARED - stages) / slot;
    a.slots = room < CUDA_WIDE_SLOTS ? room : CUDA_WIDE_SLOTS;
    return cuda_launch(
        d, halves ? k->half : k->wide,
        (struct cuda_grid){a.tiles < processors ? a.tiles : processors, 1, CUDA_WIDE_THREADS, stages + a.slots * slot},
        &a);
}

/* Set what all kernels need. */
static void count_panels(const struct cuda_kind *k, struct cuda_matmul *a)
{
    a->panels = 0;
    for (uint32_t i = 0; i < a->n_products; i++) {
        a->of[i].panel0 = a->panels;
        a->panels += cuda_divide(a->of[i].rows, CUDA_ROWS);
    }
    a->form = k->form;
}

/* Bytes of shared memory of cuda_one_*: of the activations; of a stage of sums, of @panels panels; of a piece; of the
 * rows of a norm, which lie where the stages are later. */
static unsigned one_input(uint32_t k)
{
    return (k / CUDA_WARP * (CUDA_WARP + 12) + 127) / 128 * 128;
}

static unsigned one_blocks(uint32_t k)
{
    return k / CUDA_WARP < CUDA_PIECE ? k / CUDA_WARP : CUDA_PIECE;
}

static unsigned one_stage(const struct cuda_form *f, uint32_t k, unsigned panels)
{
    return panels * one_blocks(k) * CUDA_ROWS * CUDA_TERM_BYTES(f->kind == CUDA_KIND(2, PANEL_HALVES, 1), f->m);
}

static unsigned one_piece(const struct cuda_form *f, uint32_t k)
{
    return (one_blocks(k) >> f->shift) * f->group;
}

static unsigned one_rows(uint32_t k)
{
    return 2 * k * (unsigned)sizeof(float);
}

bool cuda_one_fits(const struct cuda_kind *k, uint32_t columns)
{
    const unsigned stage = one_stage(&k->form, columns, 2), rows = one_rows(columns);
    return k->one && one_input(columns) + one_piece(&k->form, columns) + (stage > rows ? stage : rows) <= ONE_SHARED;
}

bool cuda_runs_together(enum kern_type type)
{
    return kern_type_quantized(type) && is_plain(&panel_forms[type]);
}

/* Divide shared memory of at most @ctas CTAs: stages of sums, and as many pieces as there is room for, up to all of a
 * CTA. CTAs that start early take the places of those that end first, also two on one multiprocessor. So there are as
 * many of those without a norm, which are between kernels with one, as multiprocessors, unless weights are so large
 * that the kernel behind has no room beside; and each takes more than half of one, unless kernels run together. */
static struct cuda_grid fit_one(const struct cuda_device *d, unsigned ctas, struct cuda_one *a)
{
    const unsigned parts = cuda_divide(a->m.k, CUDA_PIECE * CUDA_WARP), rows = a->norm.x ? one_rows(a->m.k) : 0;
    const unsigned each = a->gated.f ? 2 : 1, units = a->m.panels / each; /* panels that a CTA has together */
    const bool apart = !a->norm.x && one_piece(&a->m.form, a->m.k) <= ONE_SMALL;
    struct cuda_grid g = {units < ctas && !apart ? units : ctas, 1, CUDA_ONE_THREADS, 0};
    const unsigned panels = cuda_divide(units, g.x) * each,
                   stage = one_stage(&a->m.form, a->m.k, panels < 2 ? panels : 2);
    a->stages = cuda_divide(panels, 2) * parts < CUDA_ONE_STAGES ? cuda_divide(panels, 2) * parts : CUDA_ONE_STAGES;
    a->ring = (struct cuda_ring){one_input(a->m.k), panels * parts < CUDA_SLOTS ? panels * parts : CUDA_SLOTS,
                                 one_piece(&a->m.form, a->m.k)};
    for (;;) {
        const unsigned sums = a->stages * stage;
        g.shared = a->ring.from + a->ring.slots * a->ring.slot_bytes + (sums > rows ? sums : rows);
        if (g.shared <= ONE_SHARED || a->ring.slots + a->stages <= 2) break;
        if (a->ring.slots > 2 || a->stages == 1)
            a->ring.slots--;
        else
            a->stages--;
    }
    if (apart && !d->together && g.shared < ONE_APART) g.shared = ONE_APART;
    return g;
}

int cuda_multiply_one(const struct cuda_device *d, const struct cuda_kind *k, struct cuda_one *a)
{
    count_panels(k, &a->m);
    return cuda_launch(d, k->one, fit_one(d, (unsigned)d->processors, a), a);
}

/* Roughly the time that the panels of @m take @ctas CTAs. */
static unsigned one_time(const struct cuda_matmul *m, unsigned ctas)
{
    return cuda_divide(m->panels, ctas) * m->of[0].panel_bytes;
}

int cuda_multiply_two(const struct cuda_device *d, const struct cuda_kind *const k[2], struct cuda_two *a)
{
    const unsigned n = (unsigned)d->processors;
    unsigned best = UINT32_MAX;
    for (int i = 0; i < 2; i++) count_panels(k[i], &a->of[i].m);
    for (unsigned c = 1; c < n; c++) {
        const unsigned first = one_time(&a->of[0].m, c), last = one_time(&a->of[1].m, n - c);
        const unsigned t = first > last ? first : last;
        if (t <= best) best = t, a->ctas = c;
    }
    struct cuda_grid g = fit_one(d, a->ctas, &a->of[0]);
    const struct cuda_grid last = fit_one(d, n - a->ctas, &a->of[1]);
    a->ctas = g.x;
    g.x += last.x;
    if (g.shared < last.shared) g.shared = last.shared;
    return cuda_launch(d, k[0]->two, g, a);
}

/* Bytes of a stage of a warp: see matmul-batch.cu. */
static unsigned batch_stage(unsigned tokens)
{
    return tokens * (CUDA_BATCH_ROW + 4 * 12);
}

/* A CTA has two panels where there are many and a warp 16 tokens. */
static int multiply_batch(const struct cuda_device *d, const struct cuda_kind *k, const struct cuda_matmul *m)
{
    struct cuda_batch a = {.m = *m};
    const unsigned processors = (unsigned)d->processors, tokens = m->n <= 16 ? 8 : BATCH_TOKENS;
    const unsigned together = tokens == 16 && m->panels > 3 * processors ? 2 : 1, all = cuda_divide(m->n, tokens);
    const unsigned groups = cuda_divide(all, BATCH_WARPS), warps = cuda_divide(all, groups);
    const unsigned parts = cuda_divide(m->k, CUDA_PIECE * CUDA_WARP);
    struct cuda_grid g = {cuda_divide(m->panels, together), groups, warps * CUDA_WARP, 0};
    const unsigned ctas = cuda_divide(g.x * g.y, processors), each = ctas < 6 ? ctas : 6, room = BATCH_SHARED / each;
    a.ring.from = (warps * CUDA_BATCH_STAGES * batch_stage(tokens) + 127) / 128 * 128;
    a.ring.slot_bytes = one_piece(&m->form, m->k);
    a.ring.slots = together * parts < CUDA_SLOTS ? together * parts : CUDA_SLOTS;
    while (a.ring.slots > together && a.ring.from + a.ring.slots * a.ring.slot_bytes > room) a.ring.slots--;
    g.shared = a.ring.from + a.ring.slots * a.ring.slot_bytes;
    /* CTAs that start early find room on few multiprocessors: they leave none for more than their share */
    const unsigned least = CUDA_ALL_SHARED / (each + 1) + 1024;
    if (g.shared < least) g.shared = least;
    return cuda_launch(d, k->batch[tokens == 8 ? 0 : together], g, &a);
}

/* --- 2 to 16 tokens --- */

/* There are two sums: halves have factors and offsets. */
static bool two_sums(const struct cuda_kind *k)
{
    return k->form.m && k->halves;
}

/* Bytes of shared memory of @tokens tokens. */
static unsigned token_bytes(const struct cuda_kind *k, uint32_t columns, unsigned tokens)
{
    const unsigned each = columns + CUDA_TOKEN_PAD + columns / CUDA_WARP * (two_sums(k) ? 12 : 8);
    return (tokens * each + 127) / 128 * 128;
}

/* How many CTAs share the panels, with @tokens tokens each. */
static struct cuda_grid shared_panels(const struct cuda_device *d, const struct cuda_matmul *m, unsigned tokens)
{
    const unsigned processors = (unsigned)d->processors;
    return (struct cuda_grid){.x = m->panels < processors ? m->panels : processors, .y = cuda_divide(m->n, tokens)};
}

/* Bytes of a stage, for @tokens: 8 or 16. */
static unsigned split_stage(const struct cuda_kind *k, unsigned tokens)
{
    const unsigned rows = k->form.m ? 2 * CUDA_ROWS : CUDA_ROWS, sums = CUDA_ROWS * tokens;
    return CUDA_SPLIT_BLOCKS * (unsigned)sizeof(float) * (two_sums(k) ? 2 * sums + rows : sums + rows);
}

/* Divide shared memory: pieces of weights and stages of sums. False: the columns are too many. */
static bool fit_split(const struct cuda_device *d, const struct cuda_kind *k, unsigned tokens, struct cuda_split *a,
                      struct cuda_grid *g)
{
    const unsigned parts = cuda_divide(a->m.k, CUDA_PIECE * CUDA_WARP), stage = split_stage(k, tokens);
    const unsigned from = token_bytes(k, a->m.k, tokens), piece = one_piece(&k->form, a->m.k);
    *g = shared_panels(d, &a->m, tokens);
    g->threads = CUDA_SPLIT_THREADS;
    const unsigned most = cuda_divide(a->m.panels, g->x) * parts;
    a->ring = (struct cuda_ring){from, 1, piece};
    a->stages = 1;
    if (from + piece + 2 * stage <= BATCH_SHARED) a->stages = 2;
    while (a->ring.slots < most && a->ring.slots < CUDA_SLOTS &&
           from + (a->ring.slots + 1) * piece + a->stages * stage <= BATCH_SHARED)
        a->ring.slots++;
    a->sums = from + a->ring.slots * piece;
    g->shared = a->sums + a->stages * stage;
    return g->shared <= BATCH_SHARED && parts <= CUDA_SPLIT_PARTS;
}

/* False: it cannot be done. */
static bool multiply_split(const struct cuda_device *d, const struct cuda_kind *k, const struct cuda_matmul *m, int *r)
{
    struct cuda_split a = {.m = *m};
    struct cuda_grid g;
    bool two = m->n > SPLIT_TOKENS / 2 && fit_split(d, k, SPLIT_TOKENS, &a, &g);
    if (!two && !fit_split(d, k, SPLIT_TOKENS / 2, &a, &g)) return false;
    *r = cuda_launch(d, k->split[two], g, &a);
    return true;
}

/* Bytes of a piece of @blocks blocks, or of all that there are. */
static unsigned hold_piece(const struct cuda_matmul *m, unsigned blocks)
{
    const unsigned all = m->k / CUDA_WARP;
    return ((blocks < all ? blocks : all) >> m->form.shift) * m->form.group;
}

/* Divide the work among warps of @each groups of eight tokens, and shared memory: a CTA's tokens and pieces of weights.
 * False: the columns are too many. */
static bool fit_hold(const struct cuda_device *d, const struct cuda_kind *k, unsigned each, struct cuda_hold *a,
                     struct cuda_grid *g)
{
    const unsigned blocks = a->m.k / CUDA_WARP, from = token_bytes(k, a->m.k, 8 * a->groups);
    *g = shared_panels(d, &a->m, 8 * a->groups);
    a->piece = HOLD_PIECE;
    while (a->piece < blocks &&
           (hold_piece(&a->m, a->piece) < HOLD_SMALL || cuda_divide(blocks, a->piece) > CUDA_HOLD_PARTS))
        a->piece *= 2;
    const unsigned piece = hold_piece(&a->m, a->piece), warps = a->groups / each;
    if (from + piece > BATCH_SHARED) return false;
    const unsigned room = (BATCH_SHARED - from) / piece, slots = room < CUDA_MOST_SLOTS ? room : CUDA_MOST_SLOTS;
    const unsigned most = CUDA_HOLD_WARPS / warps < slots ? CUDA_HOLD_WARPS / warps : slots;
    const unsigned panels = cuda_divide(a->m.panels, g->x), turns = cuda_divide(panels, most);
    const unsigned pieces = turns * cuda_divide(blocks, a->piece);
    a->together = cuda_divide(panels, turns);
    a->ring = (struct cuda_ring){from, slots / a->together < pieces ? slots / a->together : pieces, piece};
    /* types with other scales become slower by this limit (H200) */
    a->ahead = k->plain ? HOLD_AHEAD / a->piece : CUDA_MOST_SLOTS;
    if (a->ahead < 2) a->ahead = 2;
    g->threads = (a->together * warps + 1) * CUDA_WARP;
    g->shared = from + a->together * a->ring.slots * piece;
    return true;
}

/* @both: a warp has 16 tokens, if there are more than 8. False: it cannot be done. */
static bool multiply_hold(const struct cuda_device *d, const struct cuda_kind *k, const struct cuda_matmul *m,
                          bool both, int *r)
{
    struct cuda_hold a = {.m = *m, .groups = 2};
    struct cuda_grid g;
    if (m->n <= 8 || !fit_hold(d, k, both ? 2 : 1, &a, &g)) {
        a.groups = 1, both = false;
        if (!fit_hold(d, k, 1, &a, &g)) return false;
    }
    *r = cuda_launch(d, k->hold[both], g, &a);
    return true;
}

/* The kernel of those for 2 to 16 tokens, which others replace where there are too many columns. */
static enum cuda_which best_of_few(const struct cuda_device *d, const struct cuda_matmul *m)
{
    const unsigned processors = (unsigned)d->processors;
    if (m->panels <= processors) return CUDA_USE_SPLIT;
    /* so many panels that there are enough warps */
    return m->panels > CUDA_HOLD_WARPS / 2 * processors ? CUDA_USE_HOLD16 : CUDA_USE_HOLD8;
}

int cuda_multiply(const struct cuda_device *d, const struct cuda_kind *k, struct cuda_matmul *a, enum cuda_which which)
{
    count_panels(k, a);
    if (!k->many)
        return cuda_launch(d, k->few, (struct cuda_grid){a->panels, cuda_divide(a->n, FLOAT_TOKENS), 256, 0}, a);
    if (a->x.wide) return multiply_wide(d, k, a, which);
    int r = 0;
    if (which == CUDA_BEST && k->batch[0] && a->n <= SPLIT_TOKENS) which = best_of_few(d, a);
    const bool hold = which == CUDA_USE_HOLD8 || which == CUDA_USE_HOLD16;
    if (k->hold[0] && hold && multiply_hold(d, k, a, which == CUDA_USE_HOLD16, &r)) return r;
    if (hold) which = CUDA_USE_SPLIT;
    if (k->split[0] && which == CUDA_USE_SPLIT && multiply_split(d, k, a, &r)) return r;
    if (which == CUDA_USE_SPLIT) which = CUDA_USE_BATCH;
    if (which == CUDA_BEST) which = best_of(d, k, a);
    switch (which) {
    case CUDA_USE_BATCH:
        if (k->batch[0]) return multiply_batch(d, k, a);
        return multiply_few(d, k, a, true);
    case CUDA_USE_FEW:
    case CUDA_USE_SEVERAL:
        return multiply_few(d, k, a, which == CUDA_USE_SEVERAL);
    case CUDA_USE_SOME:
        return cuda_launch(d, k->some, some_grid(k, a), a);
    default:
        return cuda_launch(d, k->many, many_grid(k, a), a);
    }
}

/* --- experts --- */

int cuda_tile_kinds(const struct cuda_device *d, struct cuda_kind *out, enum kern_type type)
{
    static const char *const floats[] = {
        [KERN_F32] = "cuda_tiles16_f32", [KERN_F16] = "cuda_tiles16_f16", [KERN_BF16] = "cuda_tiles16_bf16"};
    const struct panel_form *f = &panel_forms[type];
    if (!kern_type_quantized(type)) return cuda_kernel(d, &out->tiles8, floats[type], 0);
    int r = find_kind(d, &out->tiles8, "tiles8", f, 0);
    return r ? r : find_kind(d, &out->tiles64, "tiles64", f, CUDA_MANY_SHARED(f->width, CUDA_TILE_ROWS));
}

int cuda_multiply_tiles(const struct cuda_device *d, const struct cuda_kind *k, struct cuda_group *a, uint32_t tiles,
                        bool large)
{
    count_panels(k, &a->m);
    if (!k->tiles64) return cuda_launch(d, k->tiles8, (struct cuda_grid){a->m.panels, tiles, 256, 0}, a);
    if (large) {
        const struct cuda_grid g = {cuda_divide(a->m.panels, MANY_PANELS), tiles, SOME_THREADS,
                                    CUDA_MANY_SHARED(k->width, CUDA_TILE_ROWS)};
        return cuda_launch(d, k->tiles64, g, a);
    }
    const unsigned each = few_bytes(&a->m.form, FEW_TOKENS), blocks = a->m.k / CUDA_WARP, most = FEW_SHARED / each;
    a->m.chunk = most < blocks ? most : blocks;
    return cuda_launch(d, k->tiles8, (struct cuda_grid){a->m.panels, tiles, FEW_THREADS, a->m.chunk * each}, a);
}
