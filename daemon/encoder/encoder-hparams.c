/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-hparams.h"
#include "daemon/model/keys.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

#define EDGE_MAX    4096 /* of the square that is encoded */
#define ITEMS_MAX   16384
#define TILES_MAX   8 /* of an edge */
#define LONGEST_MAX 8192
#define HEAD_MAX    256 /* values of a head */

static const struct {
    const char *name;
    enum resize_filter filter;
    uint8_t border[3];
} kinds[] = {
    [ENCODER_GEMMA3] = {"gemma3", RESIZE_BILINEAR, {0, 0, 0}},
    [ENCODER_MLP] = {"mlp", RESIZE_BICUBIC, {122, 116, 104}}, /* CLIP's mean color */
    [ENCODER_IDEFICS3] = {"idefics3", RESIZE_LANCZOS, {0, 0, 0}},
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

static int read_kind(struct encoder_hparams *p, const struct gguf *g)
{
    struct gguf_str s = {0};
    char name[40];
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
            p->filter = kinds[i].filter;
            memcpy(p->border, kinds[i].border, sizeof(p->border));
            return 0;
        }
    gguf_text(name, sizeof(name), s);
    return error_say(-EINVAL,
                     "%s: projector type '%s' is not supported; supported: gemma3, idefics3 (SmolVLM), mlp (LLaVA-1.5)",
                     gguf_path(g), name);
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
    const uint32_t side = encoder_side(p);
    p->pool = p->kind == ENCODER_GEMMA3 ? 4 : 1;
    if (p->kind == ENCODER_MLP) return 0;
    int r = keys_u32(k, &p->pool, "projector.scale_factor", p->kind == ENCODER_GEMMA3 ? OPTIONAL : REQUIRED, 1, side);
    if (r) return r;
    if (p->pool > side)
        return error_say(-EINVAL, "%s: an image has %u patches a side, fewer than the %u that are pooled",
                         gguf_path(k->g), side, p->pool);
    if (p->kind == ENCODER_GEMMA3) return 0;
    if (side % p->pool)
        return error_say(-EINVAL, "%s: the %u patches of a side cannot be divided by the scale factor %u",
                         gguf_path(k->g), side, p->pool);
    return keys_u32(k, &p->longest, "preproc_image_size", REQUIRED, 1,
                    p->image < LONGEST_MAX / TILES_MAX ? TILES_MAX * p->image : LONGEST_MAX);
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
    if (p->dim % p->heads || p->dim / p->heads > HEAD_MAX)
        return error_say(-EINVAL, "%s: rows of %u values cannot be divided into %u heads of at most %d values",
                         gguf_path(g), p->dim, p->heads, HEAD_MAX);
    r = read_pool(p, &k);
    if (r) return r;
    if (encoder_side(p) * encoder_side(p) > ITEMS_MAX)
        return error_say(-EINVAL, "%s: an image has %u patches a side, more than %d in all", gguf_path(g),
                         encoder_side(p), ITEMS_MAX);
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
