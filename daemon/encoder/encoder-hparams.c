/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-hparams.h"
#include "daemon/encoder/encoder-kinds.h"
#include "daemon/model/keys.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

#define EDGE_MAX 4096 /* of a square tile */
#define WINDOW   112  /* pixels of an edge of Qwen2.5-VL's windows */

int encoder_check_architecture(const struct gguf *g)
{
    struct gguf_str s = {0};
    char name[40];
    int r = gguf_get_str(g, "general.architecture", &s);
    if (r < 0) return r;
    if (r) return error_say(-EINVAL, "%s: key 'general.architecture' is missing", gguf_path(g));
    if (encoder_equals(s, "clip")) return 0;
    gguf_text(name, sizeof(name), s);
    return error_say(-EINVAL, "%s: architecture '%s': this is not an encoder (an mmproj file has 'clip')", gguf_path(g),
                     name);
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
    return encoder_kind_find(p, g, s);
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

/* Qwen2.5-VL's windows. */
static int read_window(struct encoder_hparams *p, const struct keys *k)
{
    if (p->kind != ENCODER_QWEN25VL) return 0;
    int r = keys_u32(k, &p->full_every, "n_wa_pattern", REQUIRED, 0, 512);
    if (r || !p->full_every) return r;
    p->window = WINDOW / p->patch / p->pool;
    if (p->window) return 0;
    return error_say(-EINVAL, "%s: patches of %u pixels are too large for windows of %d", gguf_path(k->g), p->patch,
                     WINDOW);
}

static int check_heads(const struct encoder_hparams *p, const struct gguf *g)
{
    const uint32_t head = p->dim / p->heads;
    if (p->dim % p->heads || head > ENCODER_HEAD)
        return error_say(-EINVAL, "%s: rows of %u values cannot be divided into %u heads of at most %d values",
                         gguf_path(g), p->dim, p->heads, ENCODER_HEAD);
    if (p->rope != ROPE_NONE && head % 4)
        return error_say(-EINVAL, "%s: heads of %u values: not a multiple of 4", gguf_path(g), head);
    return 0;
}

int encoder_blocks_read(struct encoder_hparams *p, const struct keys *k)
{
    int r = keys_u32(k, &p->dim, "embedding_length", REQUIRED, 1, 16384);
    if (!r) r = keys_u32(k, &p->ffn, "feed_forward_length", REQUIRED, 1, 131072);
    if (!r) r = keys_u32(k, &p->heads, "attention.head_count", REQUIRED, 1, p->dim);
    if (!r) r = keys_u32(k, &p->layers, "block_count", REQUIRED, 1, 512);
    if (!r) r = keys_u32(k, &p->dim_out, "projection_dim", OPTIONAL, 1, 65536);
    return r ? r : keys_f32(k, &p->eps, "attention.layer_norm_epsilon", REQUIRED, 1);
}

static int read_sizes(struct encoder_hparams *p, const struct gguf *g)
{
    const struct keys k = {g, "clip.vision"};
    int r = keys_u32(&k, &p->image, "image_size", REQUIRED, 1, EDGE_MAX);
    if (!r) r = keys_u32(&k, &p->patch, "patch_size", REQUIRED, 1, p->image < 256 ? p->image : 256);
    if (!r) r = encoder_blocks_read(p, &k);
    if (r) return r;
    if (p->kind == ENCODER_INTERNVL) p->rms = p->dim == 3200 && p->layers == 45; /* InternViT-6B; no key says so */
    r = check_heads(p, g);
    if (!r) r = encoder_preparation_read(p, &k);
    if (!r) r = read_window(p, &k);
    if (r || p->prepare.cut == CUT_WHOLE) return r;
    const uint32_t side = p->prepare.tile / p->patch;
    if (side * side <= ENCODER_PATCHES) return 0;
    return error_say(-EINVAL, "%s: an image has %u patches a side, more than %d in all", gguf_path(g), side,
                     ENCODER_PATCHES);
}

int encoder_hparams_read(struct encoder_hparams *out, const struct gguf *g)
{
    memset(out, 0, sizeof(*out));
    int r = encoder_check_architecture(g);
    if (!r) r = gguf_complete(g);
    if (!r) r = read_kind(out, g);
    if (!r) r = read_act(out, g);
    if (!r) r = read_sizes(out, g);
    if (!r) r = read_feature_layer(out, g);
    if (!r) r = read_colors(out->mean, g, "clip.vision.image_mean", false);
    if (!r) r = read_colors(out->std, g, "clip.vision.image_std", true);
    return r;
}
