/* SPDX-License-Identifier: MIT */
/* The resized images of an encoding, and their tiles. */
#include "daemon/encoder/encoding-state.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static void fill_border(const struct encoding *x, struct encoding_view *v)
{
    const size_t pixels = (size_t)v->edge_x * v->edge_y;
    for (size_t i = 0; i < pixels; i++) memcpy(v->image + 3 * i, x->e->p.prepare.border, 3);
}

/* Add a view, made from @before; NULL: from the caller's image. */
static int add_view(struct encoding *x, const struct encoding_view *before, struct encoder_canvas c)
{
    struct encoding_view *v = &x->views[x->n_views++];
    v->edge_x = c.edge_x;
    v->edge_y = c.edge_y;
    v->from = before ? before->image : x->source.rgb;
    int r = resize_weights_init(&v->across, before ? before->edge_x : x->source.width, c.width, x->e->p.prepare.filter);
    if (!r)
        r = resize_weights_init(&v->down, before ? before->edge_y : x->source.height, c.height, x->e->p.prepare.filter);
    if (r < 0) return r;
    v->image = malloc((size_t)c.edge_x * c.edge_y * 3);
    if (!v->image) return error_say(-ENOMEM, "no memory to encode an image");
    if (c.width < c.edge_x || c.height < c.edge_y) fill_border(x, v);
    return 0;
}

/* CUT_EDGE: the image with its longer edge scaled, this with both edges whole tiles, and this as a square. */
static int add_views_by_edge(struct encoding *x)
{
    const uint32_t width = encoder_long_edge(x->e, x->source.width, x->source.height);
    const uint32_t height = encoder_long_edge(x->e, x->source.height, x->source.width);
    int r = add_view(x, NULL, (struct encoder_canvas){width, height, width, height});
    if (!r) r = add_view(x, &x->views[0], x->cutting.cut);
    return r ? r : add_view(x, &x->views[1], x->cutting.whole);
}

static int make_narrow(struct encoding *x)
{
    size_t most = 0;
    for (uint32_t i = 0; i < x->n_views; i++) {
        size_t pixels = (size_t)x->views[i].down.from * x->views[i].across.to;
        if (pixels > most) most = pixels;
    }
    x->narrow = malloc(most * 3);
    return x->narrow ? 0 : error_say(-ENOMEM, "no memory to encode an image");
}

int encoding_views_init(struct encoding *x)
{
    int r = 0;
    if (x->e->p.prepare.cut == CUT_EDGE) {
        r = add_views_by_edge(x);
    } else {
        if (x->cutting.columns) r = add_view(x, NULL, x->cutting.cut);
        if (!r) r = add_view(x, NULL, x->cutting.whole);
    }
    return r ? r : make_narrow(x);
}

void encoding_views_fini(struct encoding *x)
{
    for (uint32_t i = 0; i < x->n_views; i++) {
        resize_weights_fini(&x->views[i].across);
        resize_weights_fini(&x->views[i].down);
        free(x->views[i].image);
    }
    free(x->narrow);
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
    const struct encoding_view *v = &x->views[x->view];
    const struct resize_weights *w = &v->across;
    for (size_t y = s->at + begin; y < s->at + end; y++)
        resize_row(w, v->from + y * w->from * 3, x->narrow + y * w->to * 3);
}

/* The image is in the middle; of two middles, the upper and the left one. */
static void resize_down(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct rows *s = ctx;
    const struct encoding_view *v = &s->x->views[s->x->view];
    const uint32_t left = (v->edge_x - v->across.to) / 2, top = (v->edge_y - v->down.to) / 2;
    for (uint32_t y = s->at + begin; y < s->at + end; y++)
        resize_column(&v->down, y, s->x->narrow, v->across.to * 3,
                      v->image + ((size_t)(top + y) * v->edge_x + left) * 3);
}

void encoding_resize(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    struct rows s = {x, at};
    encoding_run(pool, x->stage == STAGE_COLUMNS ? resize_across : resize_down, &s, n, 1);
}

/* --- tiles --- */

uint32_t encoding_tiles(const struct encoding *x)
{
    return x->cutting.columns * x->cutting.rows + 1;
}

void encoding_take_tile(struct encoding *x, uint32_t tile)
{
    const struct encoder_hparams *p = &x->e->p;
    const uint32_t edge = p->prepare.tile, columns = x->cutting.columns, tiles = columns * x->cutting.rows;
    const struct encoding_view *whole = &x->views[x->n_views - 1];
    const bool last = tile == tiles;
    const uint32_t edge_x = last ? whole->edge_x : edge, edge_y = last ? whole->edge_y : edge;
    x->tile = tile;
    x->now = (struct encoding_tile){.view = last ? whole : whole - 1,
                                    .left = last ? 0 : tile % columns * edge,
                                    .top = last ? 0 : tile / columns * edge,
                                    .columns = edge_x / p->patch,
                                    .rows = edge_y / p->patch,
                                    .items = edge_x / p->patch / p->pool * (edge_y / p->patch / p->pool),
                                    .first = tile * x->plan.tile_items};
    x->rows = encoder_rows(&x->e->w, x->now.columns * x->now.rows);
}
