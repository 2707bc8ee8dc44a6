/* SPDX-License-Identifier: MIT */
/* What depends on the place of a patch in its tile. */
#include "daemon/encoder/encoding-state.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define PROBES     64         /* positions that sines are taken at */
#define BASE       10000.0    /* of the rotations' frequencies */
#define WEIGHT_ONE 4194304.0f /* a weight of 1 in struct resize_weights */

static int no_memory(void)
{
    return error_say(-ENOMEM, "no memory to encode an image");
}

/* --- turns --- */

static double frequency(double first, uint32_t i, uint32_t head)
{
    return first * pow(BASE, -4.0 * i / head);
}

/* The first frequency of the columns; that of the rows is 1. */
static double columns_first(const struct encoder_hparams *p)
{
    return p->rope == ROPE_PAIRS ? pow(BASE, -2.0 / (p->dim / p->heads)) : 1;
}

uint64_t encoding_turns_identity(const struct encoder_hparams *p)
{
    const uint32_t head = p->dim / p->heads;
    const double first[2] = {1, columns_first(p)};
    uint64_t hash = 0;
    for (uint32_t i = 0; i < 2 * (head / 4); i++)
        for (uint32_t at = 0; at < PROBES; at++) {
            const double freq = frequency(first[i % 2], i / 2, head), angle = at * 61 * freq;
            const double probe[] = {freq, cos(angle), sin(angle)};
            hash = XXH3_64bits_withSeed(probe, sizeof(probe), hash);
        }
    return hash;
}

/* [n][2][quarter] */
static float *make_turns(uint32_t n, uint32_t head, double first)
{
    const uint32_t quarter = head / 4;
    float *out = calloc((size_t)n * 2 * quarter, sizeof(*out)), *turn = out;
    for (uint32_t at = 0; out && at < n; at++, turn += 2 * (size_t)quarter)
        for (uint32_t i = 0; i < quarter; i++) {
            const double angle = at * frequency(first, i, head);
            turn[i] = (float)cos(angle);
            turn[quarter + i] = (float)sin(angle);
        }
    return out;
}

/* Of pairs, the rows have the even frequencies and the columns the odd ones. */
static int init_turns(struct encoding *x)
{
    const struct encoder_hparams *p = &x->e->p;
    const uint32_t head = p->dim / p->heads;
    x->turns.rows = make_turns(x->now.rows, head, 1);
    x->turns.columns = make_turns(x->now.columns, head, columns_first(p));
    return x->turns.rows && x->turns.columns ? 0 : no_memory();
}

void encoding_turn(const struct encoding *x, uint32_t patch, float *row)
{
    const struct encoder_hparams *p = &x->e->p;
    const uint32_t head = p->dim / p->heads, quarter = head / 4;
    const float *const from[2] = {x->turns.rows + (size_t)(patch / x->now.columns) * 2 * quarter,
                                  x->turns.columns + (size_t)(patch % x->now.columns) * 2 * quarter};
    float cs[ENCODER_HEAD];
    for (uint32_t i = 0; i < 2; i++) {
        memcpy(cs + i * quarter, from[i], quarter * sizeof(*cs));
        memcpy(cs + (2 + i) * quarter, from[i] + quarter, quarter * sizeof(*cs));
    }
    x->e->kern->rope(row, p->heads, head, head, cs, p->rope == ROPE_HALVES);
}

/* --- positions --- */

static int init_spread(struct encoding_spread *s, const struct encoding *x, uint32_t edge_x, uint32_t edge_y)
{
    const uint32_t side = x->e->w.side, patch = x->e->p.patch;
    int r = resize_weights_init(&s->across, side, edge_x / patch, RESIZE_BILINEAR);
    return r ? r : resize_weights_init(&s->down, side, edge_y / patch, RESIZE_BILINEAR);
}

void encoding_add_position(const struct encoding *x, uint32_t patch, float *row, float *sum)
{
    const struct encoder *e = x->e;
    const uint32_t dim = e->p.dim, at_x = patch % x->now.columns, at_y = patch / x->now.columns;
    if (e->p.prepare.cut != CUT_LFM2) {
        e->kern->add(row, e->w.positions + (size_t)(encoding_first_patch(x) + patch) * dim, dim);
        return;
    }
    const struct encoding_spread *s = &x->spread[x->tile + 1 == encoding_tiles(x)];
    const int32_t *wx = s->across.weight + s->across.at[at_x], *wy = s->down.weight + s->down.at[at_y];
    const uint32_t nx = s->across.at[at_x + 1] - s->across.at[at_x], ny = s->down.at[at_y + 1] - s->down.at[at_y];
    memset(sum, 0, dim * sizeof(*sum));
    for (uint32_t i = 0; i < ny; i++)
        for (uint32_t j = 0; j < nx; j++) {
            const float *from =
                e->w.positions + ((size_t)(s->down.first[at_y] + i) * e->w.side + s->across.first[at_x] + j) * dim;
            const float weight = (float)wy[i] / WEIGHT_ONE * ((float)wx[j] / WEIGHT_ONE);
            for (uint32_t k = 0; k < dim; k++) sum[k] += weight * from[k];
        }
    e->kern->add(row, sum, dim);
}

/* --- windows --- */

/* The rows from @first on become the squares of one window, line by line. Returns the row behind them. */
static uint32_t fill_window(struct encoding *x, uint32_t first, uint32_t left, uint32_t top)
{
    const uint32_t pool = x->e->p.pool, columns = x->now.columns;
    const uint32_t right = left + x->e->p.window, bottom = top + x->e->p.window;
    const uint32_t end_x = right < columns / pool ? right : columns / pool;
    const uint32_t end_y = bottom < x->now.rows / pool ? bottom : x->now.rows / pool;
    uint32_t row = first;
    for (uint32_t y = top; y < end_y; y++)
        for (uint32_t j = left; j < end_x; j++)
            for (uint32_t i = 0; i < pool * pool; i++, row++) {
                const uint32_t patch = (y * pool + i / pool) * columns + j * pool + i % pool;
                x->patch_at[row] = patch;
                x->row_of[patch] = row;
            }
    for (uint32_t i = first; i < row; i++) {
        x->window_begin[i] = first;
        x->window_end[i] = row;
    }
    return row;
}

static int init_windows(struct encoding *x)
{
    const uint32_t window = x->e->p.window, pool = x->e->p.pool;
    uint32_t **const all[] = {&x->patch_at, &x->row_of, &x->window_begin, &x->window_end};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        *all[i] = calloc(x->rows, sizeof(**all[i]));
        if (!*all[i]) return no_memory();
    }
    uint32_t row = 0;
    for (uint32_t y = 0; y < x->now.rows / pool; y += window)
        for (uint32_t i = 0; i < x->now.columns / pool; i += window) row = fill_window(x, row, i, y);
    return 0;
}

int encoding_places_init(struct encoding *x)
{
    const struct encoder_hparams *p = &x->e->p;
    const struct encoder_canvas *whole = &x->cutting.whole;
    int r = 0;
    if (p->rope != ROPE_NONE) r = init_turns(x);
    if (!r && p->window) r = init_windows(x);
    if (r || p->prepare.cut != CUT_LFM2) return r;
    if (x->cutting.columns) r = init_spread(&x->spread[0], x, p->prepare.tile, p->prepare.tile);
    return r ? r : init_spread(&x->spread[1], x, whole->edge_x, whole->edge_y);
}

void encoding_places_fini(struct encoding *x)
{
    for (int i = 0; i < 2; i++) {
        resize_weights_fini(&x->spread[i].across);
        resize_weights_fini(&x->spread[i].down);
    }
    free(x->turns.rows);
    free(x->turns.columns);
    free(x->patch_at);
    free(x->row_of);
    free(x->window_begin);
    free(x->window_end);
}
