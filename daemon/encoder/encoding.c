/* SPDX-License-Identifier: MIT */
/* The stages of an encoding and the size of their slices. */
#include "daemon/encoder/encoding-state.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_MULS   (1ull << 28) /* multiplications of a slice */
#define SLICE_MOST   192          /* rows */
#define SLICE_LEAST  4
#define SLICE_PIXELS (4u << 20) /* of the image, that a slice of resizing reads */

static uint32_t max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The widest row of x->scratch.in, x->scratch.mid and the products' inputs. */
static uint32_t widest(const struct encoder *e)
{
    return max(max(e->p.dim, e->p.ffn), max(e->w.patch.k, e->w.project.rows));
}

/* Rows of a slice: those of the most expensive stage. */
static uint32_t slice_rows(const struct encoding *x)
{
    const struct encoder *e = x->e;
    const uint64_t dim = e->p.dim, out = e->w.project.rows;
    uint64_t block = dim * dim + 2 * dim * e->p.ffn + 2 * dim * x->rows, kv = 3 * dim * dim;
    uint64_t project = dim * out + out * (e->w.then.panels ? e->w.then.rows : 0), patch = dim * e->w.patch.k;
    uint64_t most = block > project ? block : project;
    if (kv > most) most = kv;
    if (patch > most) most = patch;
    uint64_t n = SLICE_MULS / most;
    return n < SLICE_LEAST ? SLICE_LEAST : n < SLICE_MOST ? (uint32_t)n : SLICE_MOST;
}

/* NULL if there is no memory; sets *r then. */
static void *get_memory(int *r, size_t n, size_t size)
{
    size_t bytes;
    void *p = __builtin_mul_overflow(n, size, &bytes) ? NULL : aligned_alloc(KERN_ALIGN, kern_align(bytes + 1));
    if (!p) *r = error_say(-ENOMEM, "no memory to encode an image");
    return p;
}

static int allocate(struct encoding *x)
{
    const struct encoder *e = x->e;
    const struct encoder_hparams *p = &e->p;
    const size_t n = x->slice, wide = widest(e), blocks = (x->rows + KV_BLOCK - 1) / KV_BLOCK;
    const size_t parts = (size_t)p->heads * x->segments * n;
    int r = 0;
    x->kv_half = kern_kv_bytes(KERN_KV_F32, p->dim / p->heads);
    x->narrow = get_memory(&r, (size_t)x->height * x->plan.width, 3);
    x->image = get_memory(&r, (size_t)p->image * p->image, 3);
    x->hidden = get_memory(&r, (size_t)x->rows * p->dim, sizeof(*x->hidden));
    x->query = get_memory(&r, (size_t)x->rows * p->dim, sizeof(*x->query));
    x->kv = get_memory(&r, blocks * p->heads, 2 * x->kv_half);
    x->result = get_memory(&r, (size_t)x->plan.items * p->dim_out, sizeof(*x->result));
    x->scratch.in = get_memory(&r, n * p->dim, sizeof(*x->scratch.in));
    x->scratch.mid = get_memory(&r, n * wide, sizeof(*x->scratch.mid));
    x->scratch.out = get_memory(&r, n * 3 * p->dim, sizeof(*x->scratch.out));
    x->scratch.ones = get_memory(&r, wide, sizeof(*x->scratch.ones));
    x->scratch.q = get_memory(&r, n * wide, sizeof(*x->scratch.q));
    x->scratch.d = get_memory(&r, n * wide / KERN_BLOCK + 1, sizeof(*x->scratch.d));
    x->scratch.s = get_memory(&r, n * wide / KERN_BLOCK + 1, 2 * sizeof(*x->scratch.s));
    x->scratch.m = get_memory(&r, parts, sizeof(*x->scratch.m));
    x->scratch.l = get_memory(&r, parts, sizeof(*x->scratch.l));
    x->scratch.o = get_memory(&r, parts * (p->dim / p->heads), sizeof(*x->scratch.o));
    for (size_t i = 0; !r && i < wide; i++) x->scratch.ones[i] = 1;
    return r;
}

static void fill_border(struct encoding *x)
{
    const size_t pixels = (size_t)x->e->p.image * x->e->p.image;
    for (size_t i = 0; i < pixels; i++) memcpy(x->image + 3 * i, x->e->p.border, 3);
}

int encoding_new(struct encoding **out, const struct encoder *e, const uint8_t *rgb, uint32_t width, uint32_t height)
{
    struct encoder_plan plan;
    int r = encoder_plan(e, width, height, &plan);
    if (r < 0) return r;
    struct encoding *x = calloc(1, sizeof(*x));
    if (!x) return error_say(-ENOMEM, "no memory to encode an image");
    x->e = e;
    x->rgb = rgb;
    x->width = width;
    x->height = height;
    x->plan = plan;
    x->rows = encoder_rows(&e->p, &e->w);
    x->segments = (x->rows + KV_SEGMENT - 1) / KV_SEGMENT;
    x->slice = slice_rows(x);
    r = allocate(x);
    if (!r) r = resize_weights_init(&x->across, width, plan.width, e->p.filter);
    if (!r) r = resize_weights_init(&x->down, height, plan.height, e->p.filter);
    if (r < 0) {
        encoding_free(x);
        return r;
    }
    fill_border(x);
    *out = x;
    return 0;
}

struct encoding *encoding_free(struct encoding *x)
{
    if (!x) return NULL;
    void *const all[] = {x->narrow,     x->image,       x->hidden,      x->query,        x->kv,        x->result,
                         x->scratch.in, x->scratch.mid, x->scratch.out, x->scratch.ones, x->scratch.q, x->scratch.d,
                         x->scratch.s,  x->scratch.m,   x->scratch.l,   x->scratch.o};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) free(all[i]);
    resize_weights_fini(&x->across);
    resize_weights_fini(&x->down);
    free(x);
    return NULL;
}

/* --- resizing --- */

struct rows {
    struct encoding *x;
    uint32_t at;
};

static void resize_across(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct rows *s = ctx;
    const struct encoding *x = s->x;
    for (size_t y = s->at + begin; y < s->at + end; y++)
        resize_row(&x->across, x->rgb + y * x->width * 3, x->narrow + y * x->plan.width * 3);
}

/* The image is in the middle; of two middles, the upper and the left one. */
static void resize_down(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct rows *s = ctx;
    const struct encoding *x = s->x;
    const uint32_t edge = x->e->p.image, left = (edge - x->plan.width) / 2, top = (edge - x->plan.height) / 2;
    for (uint32_t y = s->at + begin; y < s->at + end; y++)
        resize_column(&x->down, y, x->narrow, x->plan.width * 3, x->image + ((size_t)(top + y) * edge + left) * 3);
}

static void resize(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    struct rows s = {x, at};
    encoding_run(pool, x->stage == STAGE_COLUMNS ? resize_across : resize_down, &s, n, 1);
}

/* --- slices --- */

/* Rows of a stage, and those of its slice. */
static uint32_t stage_rows(const struct encoding *x, uint32_t *slice)
{
    *slice = x->slice;
    switch (x->stage) {
    case STAGE_COLUMNS:
        *slice = max(1, SLICE_PIXELS / x->width);
        return x->height;
    case STAGE_ROWS:
        *slice = max(1, SLICE_PIXELS / (x->plan.width * (x->height / x->plan.height + 1)));
        return x->plan.height;
    case STAGE_PROJECT:
        return x->plan.items;
    default:
        return x->rows;
    }
}

static void advance(struct encoding *x)
{
    x->at = 0;
    if (x->stage == STAGE_BLOCK && ++x->block < x->e->w.n_blocks)
        x->stage = STAGE_KV;
    else
        x->stage++;
    if (x->stage == STAGE_KV && x->block == x->e->w.n_blocks) x->stage = STAGE_PROJECT;
}

/* Weights that are infinite or NaN, or very large ones, give such results. */
static int check_result(const struct encoding *x)
{
    const size_t n = (size_t)x->plan.items * x->e->p.dim_out;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x->result[i]))
            return error_say(-EINVAL, "the image encoder computes values that are no numbers: its weights are damaged");
    return 0;
}

int encoding_step(struct encoding *x, struct compute_pool *pool)
{
    static void (*const stages[])(struct encoding *, struct compute_pool *, uint32_t, uint32_t) = {
        [STAGE_COLUMNS] = resize, [STAGE_ROWS] = resize,          [STAGE_PATCHES] = encoding_patches,
        [STAGE_KV] = encoding_kv, [STAGE_BLOCK] = encoding_block, [STAGE_PROJECT] = encoding_project,
    };
    if (x->stage == STAGE_DONE) return check_result(x);
    uint32_t slice, rows = stage_rows(x, &slice), left = rows - x->at, n = left < slice ? left : slice;
    stages[x->stage](x, pool, x->at, n);
    x->at += n;
    if (x->at == rows) advance(x);
    return x->stage != STAGE_DONE ? 1 : check_result(x);
}

const float *encoding_result(const struct encoding *x)
{
    return x->stage == STAGE_DONE ? x->result : NULL;
}
