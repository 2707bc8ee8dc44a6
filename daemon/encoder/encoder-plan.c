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
    if (edge >= other) return e->p.longest;
    uint32_t n = (uint32_t)((uint64_t)edge * e->p.longest / other);
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
static struct encoder_grid best_grid(const struct encoder_hparams *p, uint32_t width, uint32_t height)
{
    const uint64_t pixels = (uint64_t)width * height;
    struct encoder_grid best = p->grids[0];
    uint64_t most = 0, waste = UINT64_MAX;
    for (uint32_t i = 0; i < p->n_grids; i++) {
        const uint32_t edge_x = p->grids[i].columns * p->image, edge_y = p->grids[i].rows * p->image;
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

static void cut_grid(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_cutting *out)
{
    const uint32_t edge = e->p.image;
    out->whole = stretch(edge, edge);
    if (width <= edge && height <= edge) return;
    const struct encoder_grid grid = best_grid(&e->p, width, height);
    out->columns = grid.columns;
    out->rows = grid.rows;
    out->cut = fit(width, height, grid.columns * edge, grid.rows * edge);
}

int encoder_cut(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_cutting *out)
{
    if (!width || !height) return error_say(-EINVAL, "an image of %ux%u has no pixels", width, height);
    if (width > ENCODER_EDGE_MAX || height > ENCODER_EDGE_MAX)
        return error_say(-EINVAL, "an image of %ux%u has an edge over %d pixels", width, height, ENCODER_EDGE_MAX);
    *out = (struct encoder_cutting){0};
    switch (e->p.cut) {
    case CUT_SQUARE:
        out->whole = fit(width, height, e->p.image, e->p.image);
        break;
    case CUT_EDGE:
        cut_edge(e, width, height, out);
        break;
    case CUT_GRIDS:
        cut_grid(e, width, height, out);
        break;
    }
    return 0;
}

uint32_t encoder_items(const struct encoder *e, uint32_t edge_x, uint32_t edge_y)
{
    const uint32_t step = e->p.patch * e->p.pool;
    return edge_x / step * (edge_y / step);
}

int encoder_plan(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_plan *out)
{
    struct encoder_cutting c;
    int r = encoder_cut(e, width, height, &c);
    if (r < 0) return r;
    const struct encoder_canvas *main = c.columns ? &c.cut : &c.whole;
    const uint32_t whole = encoder_items(e, c.whole.edge_x, c.whole.edge_y);
    const uint32_t tile = c.columns ? encoder_items(e, e->p.image, e->p.image) : whole;
    *out = (struct encoder_plan){.items = c.columns * c.rows * tile + whole,
                                 .width = main->width,
                                 .height = main->height,
                                 .columns = c.columns,
                                 .rows = c.rows,
                                 .tile_items = tile};
    return 0;
}
