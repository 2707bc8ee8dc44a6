/* SPDX-License-Identifier: MIT */
/* The stages of an encoding and the size of their slices. */
#include "daemon/encoder/encoding-sound.h"
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

/* The widest row of x->scratch.mid and the products' inputs. */
static uint32_t widest(const struct encoder *e)
{
    return max(max(e->p.dim, e->p.ffn), max(max(e->w.patch.k, e->w.merge.k), max(e->w.project.k, e->w.project.rows)));
}

/* Rows of the transformer for the tile with most of them. */
static uint32_t most_rows(const struct encoding *x)
{
    const struct encoder_hparams *p = &x->e->p;
    const struct encoder_canvas *whole = &x->cutting.whole;
    const uint32_t patches = whole->edge_x / p->patch * (whole->edge_y / p->patch);
    const uint32_t side = p->prepare.tile / p->patch, tile = x->cutting.columns ? side * side : 0;
    return encoder_rows(&x->e->w, max(patches, tile));
}

/* Rows of a slice: those of the most expensive stage. */
static uint32_t slice_rows(const struct encoding *x, uint32_t rows)
{
    const struct encoder *e = x->e;
    const uint64_t dim = e->p.dim, out = e->w.project.rows;
    const uint64_t ffn = e->p.rope == ROPE_NONE ? 2 : 3; /* products */
    uint64_t block = dim * dim + ffn * dim * e->p.ffn + 2 * dim * rows, kv = 3 * dim * dim;
    uint64_t project =
                 (uint64_t)e->w.merge.k * dim + e->w.project.k * out + out * (e->w.then.panels ? e->w.then.rows : 0),
             patch = dim * e->w.patch.k;
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
    if (!p) *r = error_say(-ENOMEM, "no memory to encode an image or a sound");
    return p;
}

int encoding_allocate(struct encoding *x)
{
    const struct encoder *e = x->e;
    const struct encoder_hparams *p = &e->p;
    const uint32_t rows = x->sound ? SOUND_ROWS : most_rows(x);
    x->segments = (rows + KV_SEGMENT - 1) / KV_SEGMENT;
    x->slice = slice_rows(x, rows);
    const size_t n = x->slice, wide = widest(e), blocks = (rows + KV_BLOCK - 1) / KV_BLOCK;
    const size_t parts = (size_t)p->heads * x->segments * n;
    int r = 0;
    x->kv_half = kern_kv_bytes(KERN_KV_F32, p->dim / p->heads);
    x->hidden = get_memory(&r, (size_t)rows * p->dim, sizeof(*x->hidden));
    x->query = get_memory(&r, (size_t)rows * p->dim, sizeof(*x->query));
    x->kv = get_memory(&r, blocks * p->heads, 2 * x->kv_half);
    x->result = get_memory(&r, (size_t)x->plan.items * p->dim_out, sizeof(*x->result));
    x->scratch.in = get_memory(&r, n * max(p->dim, max(e->w.merge.k, e->w.project.k)), sizeof(*x->scratch.in));
    x->scratch.mid = get_memory(&r, n * wide, sizeof(*x->scratch.mid));
    x->scratch.out = get_memory(&r, n * 3 * p->dim, sizeof(*x->scratch.out));
    x->scratch.up = get_memory(&r, p->rope != ROPE_NONE ? n * p->ffn : 0, sizeof(*x->scratch.up));
    x->scratch.ones = get_memory(&r, wide, sizeof(*x->scratch.ones));
    x->scratch.q = get_memory(&r, n * wide, sizeof(*x->scratch.q));
    x->scratch.d = get_memory(&r, n * wide / KERN_BLOCK + 1, 2 * sizeof(*x->scratch.d));
    x->scratch.s = get_memory(&r, n * wide / KERN_BLOCK + 1, 2 * sizeof(*x->scratch.s));
    x->scratch.m = get_memory(&r, parts, sizeof(*x->scratch.m));
    x->scratch.l = get_memory(&r, parts, sizeof(*x->scratch.l));
    x->scratch.o = get_memory(&r, parts * (p->dim / p->heads), sizeof(*x->scratch.o));
    for (size_t i = 0; !r && i < wide; i++) x->scratch.ones[i] = 1;
    return r;
}

int encoding_new(struct encoding **out, const struct encoder *e, const uint8_t *rgb, uint32_t width, uint32_t height)
{
    struct encoder_plan plan;
    struct encoder_cutting cutting;
    int r = encoder_plan(e, width, height, &plan);
    if (!r) r = encoder_cut(e, width, height, &cutting);
    if (r < 0) return r;
    struct encoding *x = calloc(1, sizeof(*x));
    if (!x) return error_say(-ENOMEM, "no memory to encode an image");
    x->e = e;
    x->source.rgb = rgb;
    x->source.width = width;
    x->source.height = height;
    x->plan = plan;
    x->cutting = cutting;
    r = encoding_views_init(x);
    if (!r) r = encoding_allocate(x);
    if (!r) {
        encoding_take_tile(x, 0);
        r = encoding_places_init(x);
    }
    if (r < 0) {
        encoding_free(x);
        return r;
    }
    *out = x;
    return 0;
}

struct encoding *encoding_free(struct encoding *x)
{
    if (!x) return NULL;
    void *const all[] = {x->hidden,      x->query,       x->kv,           x->result,     x->scratch.in,
                         x->scratch.mid, x->scratch.out, x->scratch.ones, x->scratch.up, x->scratch.q,
                         x->scratch.d,   x->scratch.s,   x->scratch.m,    x->scratch.l,  x->scratch.o};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) free(all[i]);
    encoding_views_fini(x);
    encoding_places_fini(x);
    encoding_sound_fini(x);
    free(x);
    return NULL;
}

/* --- slices --- */

/* Rows of a stage, and those of its slice. */
static uint32_t stage_rows(const struct encoding *x, uint32_t *slice)
{
    const struct encoding_view *v = &x->views[x->view];
    *slice = x->slice;
    switch (x->stage) {
    case STAGE_COLUMNS:
        *slice = max(1, SLICE_PIXELS / v->across.from);
        return v->down.from;
    case STAGE_ROWS:
        *slice = max(1, SLICE_PIXELS / (v->across.to * (v->down.from / v->down.to + 1)));
        return v->down.to;
    case STAGE_PROJECT:
        return x->now.items;
    case STAGE_LOUDEST:
    case STAGE_SPECTRA:
    case STAGE_CONVOLVE:
        return encoding_sound_rows(x);
    default:
        return x->rows;
    }
}

static void next_tile(struct encoding *x)
{
    x->block = 0;
    if (x->sound) {
        x->stage = encoding_sound_next(x) ? STAGE_SPECTRA : STAGE_DONE;
        return;
    }
    x->stage = STAGE_PATCHES;
    if (x->tile + 1 < encoding_tiles(x))
        encoding_take_tile(x, x->tile + 1);
    else
        x->stage = STAGE_DONE;
}

static void advance(struct encoding *x)
{
    x->at = 0;
    if (x->stage == STAGE_PROJECT) {
        if (!x->sound) encoding_break_lines(x);
        next_tile(x);
        return;
    }
    if (x->stage == STAGE_ROWS && x->view + 1 < x->n_views) {
        x->view++;
        x->stage = STAGE_COLUMNS;
        return;
    }
    if (x->stage == STAGE_BLOCK && ++x->block < x->e->w.n_blocks)
        x->stage = STAGE_KV;
    else if (x->stage == STAGE_CONVOLVE)
        x->stage = STAGE_PATCHES;
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
            return error_say(-EINVAL, "the %s encoder computes values that are no numbers: its weights are damaged",
                             media_kind_name(encoder_takes(x->e)));
    return 0;
}

int encoding_step(struct encoding *x, struct compute_pool *pool)
{
    static void (*const stages[])(struct encoding *, struct compute_pool *, uint32_t, uint32_t) = {
        [STAGE_COLUMNS] = encoding_resize, [STAGE_ROWS] = encoding_resize, [STAGE_PATCHES] = encoding_patches,
        [STAGE_KV] = encoding_kv,          [STAGE_BLOCK] = encoding_block, [STAGE_PROJECT] = encoding_project,
    };
    if (x->stage == STAGE_DONE) return check_result(x);
    uint32_t slice, rows = stage_rows(x, &slice), left = rows - x->at, n = left < slice ? left : slice;
    (x->sound ? encoding_sound_stages : stages)[x->stage](x, pool, x->at, n);
    x->at += n;
    if (x->at == rows) advance(x);
    return x->stage != STAGE_DONE ? 1 : check_result(x);
}

const float *encoding_result(const struct encoding *x)
{
    return x->stage == STAGE_DONE ? x->result : NULL;
}
