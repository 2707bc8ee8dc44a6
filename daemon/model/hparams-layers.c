/* SPDX-License-Identifier: MIT */
/* What differs from layer to layer: widths, heads, sparse gates, whose K and V a layer uses. And the keys of AltUp. */
#include "daemon/model/hparams-read.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FFN         "feed_forward_length"
#define FFN_MOST    (1 << 20)
#define RANK_MOST   (1 << 14)
#define STREAMS     4
#define PER_LAYER   "embedding_length_per_layer_input"
#define SHARED_KV   "attention.shared_kv_layers"
#define KV_HEADS    "attention.head_count_kv"
#define WIDEST      1024 /* dimensions of a head */
#define NEXTN       "nextn."
#define SPARSITY    "activation_sparsity_scale"
#define LAUREL      "blk.0.laurel_l.weight"
#define SPARSE_MOST 100 /* standard deviations */

/* The key @name as an array of one element for each layer; NULL: it is none, *r says whether that is an error. */
static const struct gguf_kv *of_layers(const struct hparams *s, const struct keys *k, const char *name, uint32_t elem,
                                       int *r)
{
    char full[96];
    const struct gguf_kv *kv = gguf_find(k->g, keys_name(k, full, name));
    *r = 0;
    if (!kv || kv->type != GGUF_ARRAY) return NULL;
    const bool integers = elem == GGUF_I32 && kv->elem == GGUF_U32;
    if ((kv->elem == elem || integers) && kv->n == s->n_layers + s->mtp.nextn) return kv;
    *r = error_say(-EINVAL, "%s: key '%s' is not an array of %u %s, one for each layer", gguf_path(k->g), full,
                   s->n_layers + s->mtp.nextn, elem == GGUF_F32 ? "floats" : "numbers");
    return NULL;
}

int hparams_read_ffn(struct hparams *s, const struct keys *k, enum need need)
{
    char full[96];
    int r;
    const struct gguf_kv *kv = of_layers(s, k, FFN, GGUF_I32, &r);
    if (r || !kv) return r ? r : keys_u32(k, &s->ffn, FFN, need, 1, FFN_MOST);
    for (uint32_t l = 0; l < s->n_layers; l++) {
        const int32_t n = gguf_array_i32(kv, l);
        if (n < 1 || n > FFN_MOST)
            return error_say(-EINVAL, "%s: key '%s' has %d at index %u, not a number from 1 to %d", gguf_path(k->g),
                             keys_name(k, full, FFN), n, l, FFN_MOST);
        s->by_layer.ffns[l] = (uint32_t)n;
        if (s->by_layer.ffns[l] > s->ffn) s->ffn = s->by_layer.ffns[l];
    }
    return 0;
}

/* Files of Gemma 3n have the number as a float. */
static int shared_kv(struct hparams *s, const struct keys *k)
{
    char full[96];
    float number = 0;
    if (!s->desc->attention.shared_kv) return 0;
    const struct gguf_kv *kv = gguf_find(k->g, keys_name(k, full, SHARED_KV));
    if (!kv || kv->type != GGUF_F32) {
        int r = keys_u32(k, &s->by_layer.shared_kv, SHARED_KV, OPTIONAL, 0, s->n_layers - 1);
        if (r) return r;
    } else {
        int r = gguf_get_f32(k->g, full, &number);
        if (r) return r;
        if (!(number >= 0 && number < (float)s->n_layers && number == floorf(number)))
            return error_say(-EINVAL, "%s: key '%s' is %g, not a number from 0 to %u", gguf_path(k->g), full, number,
                             s->n_layers - 1);
        s->by_layer.shared_kv = (uint32_t)number;
    }
    for (uint32_t l = s->n_layers - s->by_layer.shared_kv; l < s->n_layers; l++)
        if (hparams_window(s, hparams_kv_layer(s, l)) != hparams_window(s, l))
            return error_say(
                -EINVAL, "%s: key '%s' is %u: no layer before has K and V that layer %u, %s a window, can use",
                gguf_path(k->g), full, s->by_layer.shared_kv, l, hparams_window(s, l) ? "with" : "without");
    return 0;
}

/* Infinite below 0: the layer's gate is not sparse. */
static int sparsity(struct hparams *s, const struct keys *k)
{
    char full[96];
    int r;
    const struct gguf_kv *kv = of_layers(s, k, SPARSITY, GGUF_F32, &r);
    struct hparams_altup *a = &s->altup;
    if (r || !kv)
        return r ? r
                 : error_say(-EINVAL, "%s: key '%s' is not an array of %u floats, one for each layer", gguf_path(k->g),
                             keys_name(k, full, SPARSITY), s->n_layers);
    bool any = false;
    for (uint32_t l = 0; l < s->n_layers; l++) {
        const float factor = gguf_array_f32(kv, l);
        if (factor == -INFINITY) continue;
        if (!(fabsf(factor) <= SPARSE_MOST) || (any && factor != a->sparsity))
            return error_say(isfinite(factor) ? -EOPNOTSUPP : -EINVAL,
                             "%s: key '%s' has %g at index %u; one number from -%d to %d for all layers that have one, "
                             "and -inf for the others, is supported",
                             gguf_path(k->g), keys_name(k, full, SPARSITY), factor, l, SPARSE_MOST, SPARSE_MOST);
        any = true;
        a->sparsity = factor;
        a->sparse[l / 8] |= (uint8_t)(1 << l % 8);
    }
    return 0;
}

/* A key that has only one supported value, which it also has where it is missing. */
static int only(const struct keys *k, const char *name, uint32_t value)
{
    char full[96];
    uint32_t has = value;
    int r = gguf_get_u32(k->g, keys_name(k, full, name), &has);
    if (r < 0 || has == value) return r < 0 ? r : 0;
    return error_say(-EOPNOTSUPP, "%s: key '%s' is %u; only %u is supported", gguf_path(k->g), full, has, value);
}

/* No key has the rank of LAuReL. */
static int altup(struct hparams *s, const struct keys *k)
{
    if (!s->desc->block.altup) return 0;
    const struct gguf_tensor *t = gguf_find_tensor(k->g, LAUREL);
    int r = only(k, "altup.num_inputs", STREAMS);
    if (!r) r = only(k, "altup.active_idx", 0);
    if (!r) r = sparsity(s, k);
    if (r) return r;
    if (!t) return error_say(-EINVAL, "%s: tensor '%s' is missing", gguf_path(k->g), LAUREL);
    if (t->dims[1] > RANK_MOST)
        return error_say(-EINVAL, "%s: tensor '%s' has %llu rows; the limit is %d", gguf_path(k->g), LAUREL,
                         (unsigned long long)t->dims[1], RANK_MOST);
    s->altup.streams = STREAMS;
    s->altup.rank = (uint32_t)t->dims[1];
    return 0;
}

/* A number for all layers of a kind: layer @l, which has a window or none, adds @n to *common. */
static int add_kind(const struct hparams *s, const struct keys *k, uint32_t l, int32_t n, uint32_t *common)
{
    char full[96];
    keys_name(k, full, KV_HEADS);
    if (n < 1 || (uint32_t)n > s->heads || s->heads % (uint32_t)n)
        return error_say(-EINVAL, "%s: key '%s' has %d at index %u, which does not divide %u heads", gguf_path(k->g),
                         full, n, l, s->heads);
    if (*common && *common != (uint32_t)n)
        return error_say(-EOPNOTSUPP,
                         "%s: key '%s' has %u and %d for layers %s a window; other numbers for each are not supported",
                         gguf_path(k->g), full, *common, n, hparams_window(s, l) ? "with" : "without");
    *common = (uint32_t)n;
    return 0;
}

/* The KV heads of both kinds of layers. */
static int kv_heads(struct hparams *s, const struct keys *k)
{
    int r;
    uint32_t common[2] = {0};
    const struct gguf_kv *kv = of_layers(s, k, KV_HEADS, GGUF_I32, &r);
    for (uint32_t l = 0; kv && !r && l < s->n_layers; l++)
        r = add_kind(s, k, l, gguf_array_i32(kv, l), &common[hparams_window(s, l) > 0]);
    if (common[0]) s->kv_heads = common[0];
    if (common[1]) s->by_layer.window_heads.kv_heads = common[1];
    return r;
}

/* Keys of layers with a window are named as the others, with "_swa". */
static int two_heads(struct hparams *s, const struct keys *k)
{
    struct hparams_heads *w = &s->by_layer.window_heads;
    char full[96];
    if (!s->desc->attention.two_heads) return 0;
    *w = (struct hparams_heads){s->kv_heads, s->head_dim, s->head_dim};
    int r = kv_heads(s, k);
    if (!r) r = keys_u32(k, &w->head_dim, "attention.key_length_swa", OPTIONAL, 1, WIDEST);
    uint32_t value = w->rope_dim = w->head_dim;
    if (!r) r = keys_u32(k, &value, "attention.value_length_swa", OPTIONAL, 1, WIDEST);
    if (!r) r = keys_u32(k, &w->rope_dim, "rope.dimension_count_swa", OPTIONAL, 2, w->head_dim);
    if (r) return r;
    if (value != w->head_dim)
        return error_say(-EOPNOTSUPP, "%s: key '%s' is %u; values must have the %u dimensions of keys", gguf_path(k->g),
                         keys_name(k, full, "attention.value_length_swa"), value, w->head_dim);
    if (w->rope_dim % 2)
        return error_say(-EINVAL, "%s: key '%s' is %u, an odd number", gguf_path(k->g),
                         keys_name(k, full, "rope.dimension_count_swa"), w->rope_dim);
    if (!memcmp(w, &(struct hparams_heads){s->kv_heads, s->head_dim, s->rope_dim}, sizeof(*w)))
        *w = (struct hparams_heads){0}; /* they are alike */
    return 0;
}

int hparams_check_nextn(const struct hparams *s, const struct keys *k)
{
    bool has[HPARAMS_LAYERS_MAX] = {false}, predicts[HPARAMS_LAYERS_MAX] = {false};
    char name[72], full[96];
    unsigned l;
    for (size_t i = 0; s->mtp.nextn && i < gguf_n_tensors(k->g); i++) {
        int part = 0;
        gguf_text(name, sizeof(name), gguf_tensor_at(k->g, i)->name);
        if (sscanf(name, "blk.%u.%n", &l, &part) != 1 || !part || l >= HPARAMS_LAYERS_MAX) continue;
        has[l] = true;
        if (!strncmp(name + part, NEXTN, strlen(NEXTN))) predicts[l] = true;
    }
    for (l = s->n_layers; l < s->n_layers + s->mtp.nextn; l++) {
        if (!has[l] || predicts[l]) continue;
        return error_say(-EINVAL,
                         "%s: key '%s' is %u, but layer %u has no tensor of a layer that predicts later tokens",
                         gguf_path(k->g), keys_name(k, full, "nextn_predict_layers"), s->mtp.nextn, l);
    }
    return 0;
}

int hparams_read_layers(struct hparams *s, const struct keys *k)
{
    const enum arch_need need = s->desc->block.per_layer;
    int r = two_heads(s, k);
    if (!r) r = shared_kv(s, k);
    if (!r && need != ARCH_NEVER)
        r = keys_u32(k, &s->per_layer, PER_LAYER, need == ARCH_MUST ? REQUIRED : OPTIONAL, need == ARCH_MUST, 1 << 14);
    return r ? r : altup(s, k);
}
