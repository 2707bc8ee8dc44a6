/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-hparams.h"
#include "daemon/model/keys.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define EDGE_MAX       4096 /* of a square tile */
#define TILES_MAX      8    /* of an edge */
#define LONGEST_MAX    8192
#define HEAD_MAX       256 /* values of a head */
#define GRID_TILES_MAX 48  /* of an image in a grid */

static const struct kind {
    const char *name, *models;
    enum encoder_cut cut;
    enum resize_filter filter;
    uint8_t border[3];
    const char *pool_key;
    uint32_t pool; /* without the key; 0: it is required */
} kinds[] = {
    [ENCODER_GEMMA3] = {"gemma3", NULL, CUT_SQUARE, RESIZE_BILINEAR, {0, 0, 0}, "projector.scale_factor", 4},
    [ENCODER_MLP] = {"mlp", "LLaVA-1.5", CUT_SQUARE, RESIZE_BICUBIC, {122, 116, 104} /* CLIP's mean color */, NULL, 1},
    [ENCODER_IDEFICS3] = {"idefics3", "SmolVLM", CUT_EDGE, RESIZE_LANCZOS, {0, 0, 0}, "projector.scale_factor", 0},
    [ENCODER_INTERNVL] = {"internvl", NULL, CUT_GRIDS, RESIZE_BICUBIC, {0, 0, 0}, "projector.scale_factor", 0},
};
enum { N_KINDS = sizeof(kinds) / sizeof(*kinds) };

const char *encoder_kind_name(enum encoder_kind kind)
{
    return kinds[kind].name;
}

static bool equals(struct gguf_str s, const char *word)
{
    return s.len == strlen(word) && !memcmp(s.data, word, s.len);
}

static int read_architecture(const struct gguf *g)
{
    struct gguf_str s = {0};
    char name[40];
    int r = gguf_get_str(g, "general.architecture", &s);
    if (r < 0) return r;
    if (r) return error_say(-EINVAL, "%s: key 'general.architecture' is missing", gguf_path(g));
    if (equals(s, "clip")) return 0;
    gguf_text(name, sizeof(name), s);
    return error_say(-EINVAL, "%s: architecture '%s': this is not an image encoder (an mmproj file has 'clip')",
                     gguf_path(g), name);
}

static int refuse_kind(const struct gguf *g, struct gguf_str s)
{
    char name[40], known[256] = "";
    for (int i = 0; i < N_KINDS; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof(known) - n, "%s%s%s%s%s", i ? ", " : "", kinds[i].name, kinds[i].models ? " (" : "",
                 kinds[i].models ? kinds[i].models : "", kinds[i].models ? ")" : "");
    }
    gguf_text(name, sizeof(name), s);
    return error_say(-EINVAL, "%s: projector type '%s' is not supported; supported: %s", gguf_path(g), name, known);
}

static int read_kind(struct encoder_hparams *p, const struct gguf *g)
{
    struct gguf_str s = {0};
    bool vision = true;
    int r = gguf_get_bool(g, "clip.has_vision_encoder", &vision);
    if (r < 0) return r;
    if (!vision) return error_say(-EINVAL, "%s: the file has no image encoder", gguf_path(g));
    r = gguf_get_str(g, "clip.projector_type", &s);
    if (r == 1) r = gguf_get_str(g, "clip.vision.projector_type", &s);
    if (r < 0) return r;
    if (r) return error_say(-EINVAL, "%s: key 'clip.projector_type' is missing", gguf_path(g));
    for (int i = 0; i < N_KINDS; i++)
        if (equals(s, kinds[i].name)) {
            p->kind = (enum encoder_kind)i;
            p->cut = kinds[i].cut;
            p->filter = kinds[i].filter;
            memcpy(p->border, kinds[i].border, sizeof(p->border));
            return 0;
        }
    return refuse_kind(g, s);
}

static int read_act(struct encoder_hparams *p, const struct gguf *g)
{
    bool gelu = false, silu = false;
    int r = gguf_get_bool(g, "clip.use_gelu", &gelu);
    if (r >= 0) r = gguf_get_bool(g, "clip.use_silu", &silu);
    if (r < 0) return r;
    if (gelu && silu)
        return error_say(-EINVAL, "%s: keys 'clip.use_gelu' and 'clip.use_silu' are both true", gguf_path(g));
    p->act = gelu ? ENCODER_GELU : silu ? ENCODER_SILU : ENCODER_GELU_QUICK;
    return 0;
}

static int read_colors(float out[3], const struct gguf *g, const char *key, bool positive)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return error_say(-EINVAL, "%s: key '%s' is missing", gguf_path(g), key);
    if (kv->type != GGUF_ARRAY || kv->elem != GGUF_F32 || kv->n != 3)
        return error_say(-EINVAL, "%s: key '%s' is no array of 3 numbers", gguf_path(g), key);
    for (uint64_t i = 0; i < 3; i++) {
        out[i] = gguf_array_f32(kv, i);
        if (!isfinite(out[i]) || fabsf(out[i]) > 1000 || (positive && !(out[i] > 1e-6f)))
            return error_say(-EINVAL, "%s: key '%s' has the value %g", gguf_path(g), key, (double)out[i]);
    }
    return 0;
}

/* Which blocks are computed: LLaVA takes the output of the last but one, or of the block that a key names. */
static int read_feature_layer(struct encoder_hparams *p, const struct gguf *g)
{
    static const char key[] = "clip.vision.feature_layer";
    const struct gguf_kv *kv = gguf_find(g, key);
    p->blocks = p->layers;
    if (p->kind != ENCODER_MLP) return 0;
    p->blocks = p->layers - 1;
    if (!kv) return 0;
    if (kv->type != GGUF_ARRAY || (kv->elem != GGUF_I32 && kv->elem != GGUF_U32) || kv->n != 1)
        return error_say(-EINVAL, "%s: key '%s': only an array of one layer is supported", gguf_path(g), key);
    int32_t layer = gguf_array_i32(kv, 0);
    if (layer < 1 || (uint32_t)layer > p->layers)
        return error_say(-EINVAL, "%s: key '%s' is %d, not a number from 1 to %u", gguf_path(g), key, layer, p->layers);
    p->blocks = (uint32_t)layer;
    return 0;
}

static int read_pool(struct encoder_hparams *p, const struct keys *k)
{
    const struct kind *kind = &kinds[p->kind];
    const uint32_t side = encoder_side(p);
    p->pool = kind->pool;
    if (!kind->pool_key) return 0;
    int r = keys_u32(k, &p->pool, kind->pool_key, kind->pool ? OPTIONAL : REQUIRED, 1, side);
    if (r) return r;
    if (p->pool > side)
        return error_say(-EINVAL, "%s: an image has %u patches a side, fewer than the %u that are pooled",
                         gguf_path(k->g), side, p->pool);
    if (p->kind != ENCODER_GEMMA3 && side % p->pool)
        return error_say(-EINVAL, "%s: the %u patches of a side cannot be divided by the scale factor %u",
                         gguf_path(k->g), side, p->pool);
    return 0;
}

/* InternVL's grids: all whose number of tiles is from the least to the most. */
static int read_tile_limits(struct encoder_hparams *p, const struct keys *k)
{
    uint32_t least = 1, most = 12;
    int r = keys_u32(k, &most, "preproc_max_tiles", OPTIONAL, 1, GRID_TILES_MAX);
    if (!r) r = keys_u32(k, &least, "preproc_min_tiles", OPTIONAL, 1, most);
    if (r) return r;
    for (uint32_t x = least; x <= most; x++)
        for (uint32_t y = least; x * y <= most; y++)
            p->grids[p->n_grids++] = (struct encoder_grid){(uint16_t)x, (uint16_t)y};
    if (!p->n_grids)
        return error_say(-EINVAL, "%s: no grid of tiles has %u to %u tiles, each edge at least %u", gguf_path(k->g),
                         least, most, least);
    return 0;
}

static int read_cut(struct encoder_hparams *p, const struct keys *k)
{
    if (p->cut == CUT_EDGE)
        return keys_u32(k, &p->longest, "preproc_image_size", REQUIRED, 1,
                        p->image < LONGEST_MAX / TILES_MAX ? TILES_MAX * p->image : LONGEST_MAX);
    return p->cut == CUT_GRIDS ? read_tile_limits(p, k) : 0;
}

static int read_sizes(struct encoder_hparams *p, const struct gguf *g)
{
    const struct keys k = {g, "clip.vision"};
    int r = keys_u32(&k, &p->image, "image_size", REQUIRED, 1, EDGE_MAX);
    if (!r) r = keys_u32(&k, &p->patch, "patch_size", REQUIRED, 1, p->image < 256 ? p->image : 256);
    if (!r) r = keys_u32(&k, &p->dim, "embedding_length", REQUIRED, 1, 16384);
    if (!r) r = keys_u32(&k, &p->ffn, "feed_forward_length", REQUIRED, 1, 131072);
    if (!r) r = keys_u32(&k, &p->heads, "attention.head_count", REQUIRED, 1, p->dim);
    if (!r) r = keys_u32(&k, &p->layers, "block_count", REQUIRED, 1, 512);
    if (!r) r = keys_u32(&k, &p->dim_out, "projection_dim", OPTIONAL, 1, 65536);
    if (!r) r = keys_f32(&k, &p->eps, "attention.layer_norm_epsilon", REQUIRED, 1);
    if (r) return r;
    p->rms = p->kind == ENCODER_INTERNVL && p->dim == 3200 && p->layers == 45; /* InternViT-6B; no key says so */
    if (p->dim % p->heads || p->dim / p->heads > HEAD_MAX)
        return error_say(-EINVAL, "%s: rows of %u values cannot be divided into %u heads of at most %d values",
                         gguf_path(g), p->dim, p->heads, HEAD_MAX);
    r = read_pool(p, &k);
    if (!r) r = read_cut(p, &k);
    if (r) return r;
    if (encoder_side(p) * encoder_side(p) > ENCODER_PATCHES)
        return error_say(-EINVAL, "%s: an image has %u patches a side, more than %d in all", gguf_path(g),
                         encoder_side(p), ENCODER_PATCHES);
    return 0;
}

int encoder_hparams_read(struct encoder_hparams *out, const struct gguf *g)
{
    memset(out, 0, sizeof(*out));
    int r = read_architecture(g);
    if (!r) r = read_kind(out, g);
    if (!r && out->kind == ENCODER_MLP && gguf_find(g, "clip.vision.image_grid_pinpoints"))
        r = error_say(-EINVAL, "%s: key 'clip.vision.image_grid_pinpoints': tiles (LLaVA-1.6) are not supported",
                      gguf_path(g));
    if (!r) r = read_act(out, g);
    if (!r) r = read_sizes(out, g);
    if (!r) r = read_feature_layer(out, g);
    if (!r) r = read_colors(out->mean, g, "clip.vision.image_mean", false);
    if (!r) r = read_colors(out->std, g, "clip.vision.image_std", true);
    return r;
}
