/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-plan.h"
#include "daemon/encoder/encoder-state.h"
#include "libcommon/error.h"
#include <math.h>

/* An edge of @pixels, scaled and rounded up; at most @most. */
static uint32_t scaled(uint32_t pixels, float scale, uint32_t most)
{
    float edge = ceilf((float)pixels * scale);
    return edge < 1 ? 1 : edge < (float)most ? (uint32_t)edge : most;
}

/* The image as large as it fits, with a border. */
static struct encoder_canvas fit(uint32_t width, uint32_t height, uint32_t edge_x, uint32_t edge_y)
{
    const float x = (float)edge_x / (float)width, y = (float)edge_y / (float)height, scale = x < y ? x : y;
    return (struct encoder_canvas){edge_x, edge_y, scaled(width, scale, edge_x), scaled(height, scale, edge_y)};
}

/* The image with both edges stretched. */
static struct encoder_canvas stretch(uint32_t edge_x, uint32_t edge_y)
{
    return (struct encoder_canvas){edge_x, edge_y, edge_x, edge_y};
}

uint32_t encoder_long_edge(const struct encoder *e, uint32_t edge, uint32_t other)
{
    if (edge >= other) return e->p.prepare.longest;
    uint32_t n = (uint32_t)((uint64_t)edge * e->p.prepare.longest / other);
    return n ? n + n % 2 : 1;
}

static uint32_t tiles_of(const struct encoder *e, uint32_t edge)
{
    return (edge + e->p.image - 1) / e->p.image;
}

static void cut_edge(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_cutting *out)
{
    out->columns = tiles_of(e, encoder_long_edge(e, width, height));
    out->rows = tiles_of(e, encoder_long_edge(e, height, width));
    out->cut = stretch(out->columns * e->p.image, out->rows * e->p.image);
    out->whole = stretch(e->p.image, e->p.image);
}

/* The grid in which the image keeps most pixels; of several ones, that with the fewest tiles; then the first one. */
static struct encoder_grid best_grid(const struct encoder_preparation *p, uint32_t width, uint32_t height)
{
    const uint64_t pixels = (uint64_t)width * height;
    struct encoder_grid best = p->grids[0];
    uint64_t most = 0, waste = UINT64_MAX;
    for (uint32_t i = 0; i < p->n_grids; i++) {
        const uint32_t edge_x = p->grids[i].columns * p->tile, edge_y = p->grids[i].rows * p->tile;
        const float x = (float)edge_x / (float)width, y = (float)edge_y / (float)height, scale = x < y ? x : y;
        uint64_t used = (uint64_t)((float)width * scale) * (uint64_t)((float)height * scale);
        if (used > pixels) used = pixels;
        const uint64_t left = (uint64_t)edge_x * edge_y - used;
        if (used < most || (used == most && left >= waste)) continue;
        most = used;
        waste = left;
        best = p->grids[i];
    }
    return best;
}

static void set_grid(struct encoder_cutting *out, struct encoder_grid grid, struct encoder_canvas cut)
{
    out->columns = grid.columns;
    out->rows = grid.rows;
    out->cut = cut;
}

static void cut_grid(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_cutting *out)
{
    const uint32_t edge = e->p.prepare.tile;
    out->whole = stretch(edge, edge);
    if (width <= edge && height <= edge) return;
    const struct encoder_grid grid = best_grid(&e->p.prepare, width, height);
    set_grid(out, grid, fit(width, height, grid.columns * edge, grid.rows * edge));
}

/* --- an image's own size --- */

/* @edge times @scale in steps, rounded down; at least one step. */
static uint32_t steps_down(uint32_t edge, float beta, uint32_t step)
{
    const float n = floorf((float)edge / beta / (float)step);
    return n < 1 ? step : (uint32_t)n * step;
}

static uint32_t steps_up(uint32_t edge, float beta, uint32_t step)
{
    return (uint32_t)ceil((double)((float)edge * beta) / step) * step;
}

static uint32_t steps_near(uint32_t edge, uint32_t step)
{
    const float n = roundf((float)edge / (float)step);
    return n < 1 ? step : (uint32_t)n * step;
}

/* About the size of the image, each edge a number of squares that become one embedding, and the area within limits. */
static int own_size(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_canvas *out)
{
    const struct encoder_preparation *p = &e->p.prepare;
    const uint32_t step = e->p.patch * e->p.pool;
    const float area = (float)height * (float)width;
    uint32_t x = steps_near(width, step), y = steps_near(height, step);
    if ((uint64_t)x * y > p->most) {
        const float beta = sqrtf(area / (float)p->most);
        x = steps_down(width, beta, step);
        y = steps_down(height, beta, step);
    } else if ((uint64_t)x * y < p->least) {
        const float beta = sqrtf((float)p->least / area);
        x = steps_up(width, beta, step);
        y = steps_up(height, beta, step);
    }
    if (x > ENCODER_EDGE_MAX || y > ENCODER_EDGE_MAX || (uint64_t)(x / e->p.patch) * (y / e->p.patch) > ENCODER_PATCHES)
        return error_say(-EINVAL, "an image of %ux%u is too narrow for this image encoder", width, height);
    *out = (struct encoder_canvas){x, y, x, y};
    return 0;
}

static int cut_whole(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_cutting *out)
{
    int r = own_size(e, width, height, &out->whole);
    if (!r) out->whole = fit(width, height, out->whole.edge_x, out->whole.edge_y);
    return r;
}

/* The grid of 2 to 10 tiles whose aspect ratio is nearest to the image's. Of two as near, or equal, the one with more
 * tiles if the image has more than half of its pixels. */
static struct encoder_grid nearest_grid(const struct encoder_preparation *p, uint32_t width, uint32_t height)
{
    const float ratio = (float)width / (float)height;
    struct encoder_grid best = {1, 1};
    float least = INFINITY;
    for (uint32_t n = 2; n <= 10; n++)
        for (uint32_t x = 1; x <= n; x++) {
            if (n % x) continue;
            const struct encoder_grid grid = {(uint16_t)x, (uint16_t)(n / x)};
            const float distance = fabsf(ratio - (float)grid.columns / (float)grid.rows);
            const bool large = (float)((uint64_t)width * height) > 0.5f * (float)(p->tile * p->tile * n);
            if (distance > least || (distance == least && !large)) continue;
            least = distance;
            best = grid;
        }
    return best;
}

/* An edge in steps, halves to even. */
static uint64_t steps_even(uint32_t edge, const struct encoder *e)
{
    const uint32_t step = e->p.patch * e->p.pool;
    const uint32_t n = (uint32_t)nearbyint((double)edge / step) * step;
    return n > e->p.patch ? n : e->p.patch;
}

static int cut_lfm2(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_cutting *out)
{
    const uint32_t edge = e->p.prepare.tile;
    int r = own_size(e, width, height, &out->whole);
    if (r || steps_even(width, e) * steps_even(height, e) <= 2ull * e->p.prepare.most) return r;
    const struct encoder_grid grid = nearest_grid(&e->p.prepare, width, height);
    set_grid(out, grid, fit(width, height, grid.columns * edge, grid.rows * edge));
    return 0;
}

int encoder_cut(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_cutting *out)
{
    if (!width || !height) return error_say(-EINVAL, "an image of %ux%u has no pixels", width, height);
    if (width > ENCODER_EDGE_MAX || height > ENCODER_EDGE_MAX)
        return error_say(-EINVAL, "an image of %ux%u has an edge over %d pixels", width, height, ENCODER_EDGE_MAX);
    *out = (struct encoder_cutting){0};
    int r = 0;
    switch (e->p.prepare.cut) {
    case CUT_SQUARE:
        out->whole = fit(width, height, e->p.image, e->p.image);
        break;
    case CUT_EDGE:
        cut_edge(e, width, height, out);
        break;
    case CUT_GRIDS:
        cut_grid(e, width, height, out);
        break;
    case CUT_WHOLE:
        r = cut_whole(e, width, height, out);
        break;
    case CUT_LFM2:
        r = cut_lfm2(e, width, height, out);
        break;
    }
    return r;
}

uint32_t encoder_items(const struct encoder *e, uint32_t edge_x, uint32_t edge_y)
{
    const uint32_t step = e->p.patch * e->p.pool, rows = edge_y / step;
    return edge_x / step * rows + (e->w.line_break ? rows - 1 : 0);
}

int encoder_plan(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_plan *out)
{
    struct encoder_cutting c;
    if (e->p.sound.kind) return error_say(-EINVAL, "the encoder takes sounds, not images");
    int r = encoder_cut(e, width, height, &c);
    if (r < 0) return r;
    const struct encoder_canvas *main = c.columns ? &c.cut : &c.whole;
    const uint32_t whole = encoder_items(e, c.whole.edge_x, c.whole.edge_y), step = e->p.patch * e->p.pool;
    const uint32_t tile = c.columns ? encoder_items(e, e->p.prepare.tile, e->p.prepare.tile) : whole;
    *out = (struct encoder_plan){.items = c.columns * c.rows * tile + whole,
                                 .width = main->width,
                                 .height = main->height,
                                 .columns = c.columns,
                                 .rows = c.rows,
                                 .tile_items = tile};
    if (e->p.rope == ROPE_HALVES) {
        out->grid_columns = c.whole.edge_x / step;
        out->grid_rows = c.whole.edge_y / step;
    }
    return 0;
}
