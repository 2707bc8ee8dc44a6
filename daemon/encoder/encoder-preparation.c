/* SPDX-License-Identifier: MIT */
/* The keys that say how an image is resized and cut into tiles. */
#include "daemon/encoder/encoder-kinds.h"
#include "libcommon/error.h"
#include <string.h>

#define TILES_MAX       8 /* of an edge */
#define LONGEST_MAX     8192
#define LFM2_TILE       512 /* pixels */
#define GRID_TILES_MAX  48
#define GRID_PIXELS_MAX (1u << 26)

static int read_pool(struct encoder_hparams *p, const struct keys *k)
{
    const struct encoder_kind_row *kind = encoder_kind_row(p->kind);
    const uint32_t tile = kind->cut == CUT_LFM2 ? LFM2_TILE : p->image, side = tile / p->patch;
    p->prepare.tile = tile;
    p->pool = kind->pool;
    if (!kind->pool_key) return 0;
    int r = keys_u32(k, &p->pool, kind->pool_key, kind->pool ? OPTIONAL : REQUIRED, 1, side);
    if (r || kind->cut == CUT_WHOLE) return r;
    if (p->pool > side)
        return error_say(-EINVAL, "%s: an image has %u patches a side, fewer than the %u that are pooled",
                         gguf_path(k->g), side, p->pool);
    if (p->kind != ENCODER_GEMMA3 && (side % p->pool || (kind->cut == CUT_LFM2 && tile % p->patch)))
        return error_say(-EINVAL, "%s: the %u patches of a side cannot be divided by the scale factor %u",
                         gguf_path(k->g), side, p->pool);
    return 0;
}

/* The limits of an image's size. */
static int read_limits(struct encoder_hparams *p, const struct keys *k)
{
    const struct encoder_kind_row *kind = encoder_kind_row(p->kind);
    const uint32_t square = p->pool * p->pool, area = p->patch * p->patch;
    if (kind->rope == ROPE_HALVES && p->pool != 2)
        return error_say(-EINVAL, "%s: key 'clip.vision.%s' is %u, only 2 is supported", gguf_path(k->g),
                         kind->pool_key, p->pool);
    if (p->pool > 64 || kind->most * square > ENCODER_PATCHES)
        return error_say(-EINVAL, "%s: %u patches become one embedding, too many for %u embeddings of an image",
                         gguf_path(k->g), square, kind->most);
    p->prepare.least = kind->least * square * area;
    p->prepare.most = kind->most * square * area;
    if (kind->rope != ROPE_HALVES) return 0;
    int r = keys_u32(k, &p->prepare.most, "image_max_pixels", OPTIONAL, square * area, ENCODER_PATCHES * area);
    return r ? r : keys_u32(k, &p->prepare.least, "image_min_pixels", OPTIONAL, 1, p->prepare.most);
}

/* False if it has no tiles or too many, or too many pixels. */
static bool add_grid(struct encoder_preparation *p, uint32_t columns, uint32_t rows)
{
    const uint64_t tiles = (uint64_t)columns * rows;
    if (!tiles || tiles > GRID_TILES_MAX || tiles * p->tile * p->tile > GRID_PIXELS_MAX) return false;
    p->grids[p->n_grids++] = (struct encoder_grid){(uint16_t)columns, (uint16_t)rows};
    return true;
}

/* InternVL's grids: all whose number of tiles is from the least to the most. */
static int read_tile_limits(struct encoder_preparation *p, const struct keys *k)
{
    uint32_t least = 1, most = 12;
    int r = keys_u32(k, &most, "preproc_max_tiles", OPTIONAL, 1, GRID_TILES_MAX);
    if (!r) r = keys_u32(k, &least, "preproc_min_tiles", OPTIONAL, 1, most);
    if (r) return r;
    for (uint32_t x = least; x <= most; x++)
        for (uint32_t y = least; x * y <= most; y++)
            if (!add_grid(p, x, y))
                return error_say(-EINVAL, "%s: %ux%u tiles of %u pixels are too large", gguf_path(k->g), x, y, p->tile);
    if (!p->n_grids)
        return error_say(-EINVAL, "%s: no grid of tiles has %u to %u tiles, each edge at least %u", gguf_path(k->g),
                         least, most, least);
    return 0;
}

/* LLaVA-1.6's grids: a list of their widths and heights in pixels. */
static int read_pinpoints(struct encoder_preparation *p, const struct gguf *g)
{
    static const char key[] = "clip.vision.image_grid_pinpoints";
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_ARRAY || (kv->elem != GGUF_I32 && kv->elem != GGUF_U32) || kv->n < 2 || kv->n % 2 ||
        kv->n / 2 > ENCODER_GRIDS)
        return error_say(-EINVAL, "%s: key '%s' is no array of 1 to %d pairs of numbers", gguf_path(g), key,
                         ENCODER_GRIDS);
    for (uint64_t i = 0; i < kv->n; i += 2) {
        const uint32_t x = (uint32_t)gguf_array_i32(kv, i), y = (uint32_t)gguf_array_i32(kv, i + 1);
        if (x % p->tile || y % p->tile || !add_grid(p, x / p->tile, y / p->tile))
            return error_say(-EINVAL, "%s: key '%s': %ux%u pixels are no 1 to %d tiles of %u pixels", gguf_path(g), key,
                             x, y, GRID_TILES_MAX, p->tile);
    }
    p->cut = CUT_GRIDS;
    memset(p->border, 0, sizeof(p->border));
    return 0;
}

/* LFM2's filter. */
static int read_filter(struct encoder_preparation *p, const struct gguf *g)
{
    static const char key[] = "clip.vision.image_resize_algo";
    static const char *const names[] = {
        [RESIZE_BILINEAR] = "bilinear", [RESIZE_BICUBIC] = "bicubic", [RESIZE_LANCZOS] = "lanczos"};
    struct gguf_str s = {0};
    char name[40];
    int r = gguf_get_str(g, key, &s);
    if (r) return r < 0 ? r : 0;
    for (int i = 0; i < 3; i++)
        if (encoder_equals(s, names[i])) {
            p->filter = (enum resize_filter)i;
            return 0;
        }
    gguf_text(name, sizeof(name), s);
    return error_say(-EINVAL, "%s: key '%s' is '%s', not bilinear, bicubic or lanczos", gguf_path(g), key, name);
}

int encoder_preparation_read(struct encoder_hparams *p, const struct keys *k)
{
    int r = read_pool(p, k);
    if (r) return r;
    switch (p->prepare.cut) {
    case CUT_SQUARE:
        return p->kind == ENCODER_MLP ? read_pinpoints(&p->prepare, k->g) : 0;
    case CUT_EDGE:
        return keys_u32(k, &p->prepare.longest, "preproc_image_size", REQUIRED, 1,
                        p->image < LONGEST_MAX / TILES_MAX ? TILES_MAX * p->image : LONGEST_MAX);
    case CUT_GRIDS:
        return read_tile_limits(&p->prepare, k);
    default:
        break;
    }
    r = read_limits(p, k);
    return r || p->prepare.cut != CUT_LFM2 ? r : read_filter(&p->prepare, k->g);
}
