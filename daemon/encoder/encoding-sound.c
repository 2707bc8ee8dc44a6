/* SPDX-License-Identifier: MIT */
/* From log-mel spectra to the rows that enter the first block, and from the last block to embeddings. */
#include "daemon/encoder/encoding-sound.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOUD_MAX 1e6f /* of a sample */
#define NORM_EPS 1e-6f

struct slice {
    struct encoding *x;
    uint32_t at, n;    /* rows, or items */
    const float *from; /* of a convolution: its rows, after one of zeros */
    uint32_t width, stride;
    float *out; /* [n][dim] */
};

/* --- convolutions --- */

/* The rows that each output reads, side by side. */
static void take_taps(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const size_t k = SOUND_TAPS * (size_t)s->width;
    for (uint32_t i = begin; i < end; i++)
        memcpy(s->x->sound->taps + i * k, s->from + (size_t)(s->at + i) * s->stride * s->width, k * sizeof(float));
}

static void bend(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const size_t dim = s->x->e->p.dim;
    encoding_gelu_erf(s->out + begin * dim, (uint32_t)((end - begin) * dim));
}

static void convolve(struct slice *s, struct compute_pool *pool, const struct encoder_matrix *m)
{
    encoding_run(pool, take_taps, s, s->n, 8);
    encoding_multiply(s->x, pool, m, s->x->sound->taps, s->n, s->out, s->x->e->p.dim);
    encoding_run(pool, bend, s, s->n, 1);
}

static void convolve_first(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    struct encoding_sound *y = x->sound;
    struct slice s = {x, at, n, y->frames, x->e->p.sound.bins, 1, y->convolved + (size_t)(at + 1) * x->e->p.dim};
    convolve(&s, pool, &x->e->sound.first);
}

static void place_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const size_t dim = s->x->e->p.dim;
    s->x->e->kern->add(s->out + begin * dim, s->x->e->w.positions + (s->at + begin) * dim, (end - begin) * dim);
}

static void convolve_second(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    const uint32_t dim = x->e->p.dim;
    struct slice s = {x, at, n, x->sound->convolved, dim, 2, x->hidden + (size_t)at * dim};
    convolve(&s, pool, &x->e->sound.second);
    encoding_run(pool, place_rows, &s, n, 1);
}

/* --- the projector --- */

/* Row @row of the projector's input, to @out: after the last norm, of two rows their mean. */
static void last_norm(const struct encoding *x, uint32_t row, float *out)
{
    const struct encoder *e = x->e;
    const size_t dim = e->p.dim;
    const float *in = x->hidden + (size_t)row * e->p.sound.pool * dim;
    if (e->p.sound.pool == 2)
        for (size_t i = 0; i < dim; i++) out[i] = (in[i] + in[dim + i]) / 2;
    encoding_norm(e->kern, out, e->p.sound.pool == 2 ? out : in, &e->w.post, false, e->p.eps);
}

static void gather(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoder *e = s->x->e;
    const uint32_t stack = e->p.sound.stack;
    for (uint32_t i = begin; i < end; i++) {
        float *out = s->x->scratch.in + (size_t)i * e->w.project.k;
        for (uint32_t j = 0; j < stack; j++) last_norm(s->x, (s->at + i) * stack + j, out + (size_t)j * e->p.dim);
        if (e->w.gathered.w) encoding_norm(e->kern, out, out, &e->w.gathered, true, NORM_EPS);
    }
}

/* Between the two products of Ultravox and Voxtral; to joined. */
static void join(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoder *e = s->x->e;
    const uint32_t rows = e->w.project.rows, half = rows / 2;
    for (size_t i = begin; i < end; i++) {
        float *row = s->x->scratch.mid + i * rows;
        if (e->p.sound.kind == SOUND_ULTRAVOX) {
            e->kern->silu_mul(row + half, row, half);
            encoding_norm(e->kern, s->x->sound->joined + i * half, row + half, &e->sound.middle, true, NORM_EPS);
        } else {
            encoding_gelu_erf(row, rows);
            memcpy(s->x->sound->joined + i * rows, row, rows * sizeof(*row));
        }
    }
}

static void project(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    struct slice s = {.x = x, .at = at, .n = n};
    const struct encoder_weights *w = &x->e->w;
    const size_t dim = x->e->p.dim_out;
    float *out = x->result + ((size_t)x->now.first + at) * dim;
    encoding_run(pool, gather, &s, n, 1);
    if (!w->then.panels) {
        encoding_multiply(x, pool, &w->project, x->scratch.in, n, out, dim);
        return;
    }
    encoding_multiply(x, pool, &w->project, x->scratch.in, n, x->scratch.mid, w->project.rows);
    encoding_run(pool, join, &s, n, 1);
    encoding_multiply(x, pool, &w->then, x->sound->joined, n, out, dim);
}

void (*const encoding_sound_stages[STAGE_DONE])(struct encoding *, struct compute_pool *, uint32_t, uint32_t) = {
    [STAGE_LOUDEST] = encoding_loudest, [STAGE_SPECTRA] = encoding_spectra, [STAGE_CONVOLVE] = convolve_first,
    [STAGE_PATCHES] = convolve_second,  [STAGE_KV] = encoding_kv,           [STAGE_BLOCK] = encoding_block,
    [STAGE_PROJECT] = project,
};

uint32_t encoding_sound_rows(const struct encoding *x)
{
    return x->stage == STAGE_LOUDEST ? x->sound->heard : SOUND_FRAMES;
}

/* --- plan and memory --- */

int encoder_plan_sound(const struct encoder *e, uint64_t samples, struct encoder_plan *out)
{
    if (!e->p.sound.kind) return error_say(-EINVAL, "the encoder takes images, not sounds");
    if (!samples) return error_say(-EINVAL, "a sound of 0 s has no samples");
    if (samples > MEDIA_SAMPLES_MAX)
        return error_say(-EINVAL, "a sound of %.0f s is over %u s", ceil((double)samples / MEDIA_RATE),
                         MEDIA_SECONDS_MAX);
    /* 30 s of silence follow the sound; a part of a chunk does not count. */
    const uint64_t frames = (samples > MEL_WINDOW / 2 ? samples : MEL_WINDOW / 2 + 1) / MEL_HOP + SOUND_FRAMES + 1;
    const uint32_t chunks = (uint32_t)(frames / SOUND_FRAMES), items = encoder_chunk_items(&e->p);
    *out = (struct encoder_plan){.items = chunks * items, .tile_items = items, .chunks = chunks};
    return 0;
}

static void take_chunk(struct encoding *x, uint32_t chunk)
{
    x->sound->chunk = chunk;
    x->now = (struct encoding_tile){.items = x->plan.tile_items, .first = chunk * x->plan.tile_items};
    x->rows = SOUND_ROWS;
}

bool encoding_sound_next(struct encoding *x)
{
    if (x->sound->chunk + 1 == x->sound->chunks) return false;
    take_chunk(x, x->sound->chunk + 1);
    return true;
}

static int allocate(struct encoding *x)
{
    struct encoding_sound *y = x->sound;
    const struct encoder_hparams *p = &x->e->p;
    const size_t rows = SOUND_FRAMES + 2, n = x->slice, bins = p->sound.bins;
    const struct {
        float **at;
        size_t n;
    } all[] = {{&y->frames, rows * bins},
               {&y->convolved, rows * p->dim},
               {&y->even, n * MEL_EVEN},
               {&y->odd, n * MEL_ODD},
               {&y->re, n * MEL_EVEN},
               {&y->im, n * MEL_ODD},
               {&y->power, n * bins},
               {&y->taps, n * SOUND_TAPS * (bins > p->dim ? bins : p->dim)},
               {&y->joined, n * x->e->w.project.rows}};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        *all[i].at = aligned_alloc(KERN_ALIGN, kern_align(all[i].n * sizeof(float)));
        if (!*all[i].at) return error_say(-ENOMEM, "no memory to encode a sound");
    }
    memset(y->frames, 0, bins * sizeof(float));
    memset(y->frames + (rows - 1) * bins, 0, bins * sizeof(float));
    memset(y->convolved, 0, p->dim * sizeof(float));
    memset(y->convolved + (rows - 1) * p->dim, 0, p->dim * sizeof(float));
    return 0;
}

static int check(const float *samples, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!(fabsf(samples[i]) <= LOUD_MAX))
            return error_say(-EINVAL, "a sample of the sound is no number, or too large");
    return 0;
}

int encoding_new_sound(struct encoding **out, const struct encoder *e, const float *samples, uint64_t n)
{
    struct encoder_plan plan;
    int r = encoder_plan_sound(e, n, &plan);
    if (!r) r = check(samples, n);
    if (r < 0) return r;
    struct encoding *x = calloc(1, sizeof(*x));
    if (x) x->sound = calloc(1, sizeof(*x->sound));
    if (!x || !x->sound) {
        free(x);
        return error_say(-ENOMEM, "no memory to encode a sound");
    }
    x->e = e;
    x->plan = plan;
    x->stage = STAGE_LOUDEST;
    *x->sound = (struct encoding_sound){.samples = samples,
                                        .n = n,
                                        .heard = (uint32_t)((n + MEL_WINDOW / 2 - 1) / MEL_HOP + 1),
                                        .chunks = plan.chunks,
                                        .floor = (float)log10((double)SOUND_FLOOR),
                                        .most = SOUND_FLOOR};
    take_chunk(x, 0);
    r = encoding_allocate(x);
    if (!r) r = allocate(x);
    if (r < 0) {
        encoding_free(x);
        return r;
    }
    *out = x;
    return 0;
}

void encoding_sound_fini(struct encoding *x)
{
    struct encoding_sound *y = x->sound;
    if (!y) return;
    float *const all[] = {y->frames, y->convolved, y->even, y->odd, y->re, y->im, y->power, y->taps, y->joined};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) free(all[i]);
    free(y);
    x->sound = NULL;
}
