/* SPDX-License-Identifier: MIT */
#include "daemon/model/hparams-read.h"
#include "libcommon/error.h"

#define KV_HEADS "attention.head_count_kv"
#define FFN      "feed_forward_length"

/* The key @name as an array, a number for each layer: has[l] is not 0 where that is not 0. All of these are *common. */
static int of_layers(const struct hparams *s, const struct keys *k, const char *name, int32_t max, uint32_t *common,
                     uint8_t has[HPARAMS_LAYERS_MAX])
{
    char full[96];
    const struct gguf_kv *kv = gguf_find(k->g, keys_name(k, full, name));
    *common = 0;
    if (!kv || kv->type != GGUF_ARRAY || (kv->elem != GGUF_I32 && kv->elem != GGUF_U32) || kv->n != s->n_layers)
        return error_say(-EINVAL, "%s: key '%s' is not an array of %u numbers, one for each layer", gguf_path(k->g),
                         full, s->n_layers);
    for (uint32_t l = 0; l < s->n_layers; l++) {
        int32_t n = gguf_array_i32(kv, l);
        if (n < 0 || n > max)
            return error_say(-EINVAL, "%s: key '%s' has %d at index %u, not a number from 0 to %d", gguf_path(k->g),
                             full, n, l, max);
        if (n && *common && (uint32_t)n != *common)
            return error_say(-EOPNOTSUPP, "%s: key '%s' has %u and %d; layers with other numbers are not supported",
                             gguf_path(k->g), full, *common, n);
        if (n) *common = (uint32_t)n;
        has[l] = n != 0;
    }
    return *common ? 0 : error_say(-EINVAL, "%s: key '%s' has only zeros", gguf_path(k->g), full);
}

static bool is_array(const struct keys *k, const char *name)
{
    char full[96];
    const struct gguf_kv *kv = gguf_find(k->g, keys_name(k, full, name));
    return kv && kv->type == GGUF_ARRAY;
}

/* Layers without KV heads are recurrent. */
static int without_heads(struct hparams *s, const struct keys *k)
{
    uint8_t has[HPARAMS_LAYERS_MAX];
    int r = of_layers(s, k, KV_HEADS, 4096, &s->kv_heads, has);
    for (uint32_t l = 0; !r && l < s->n_layers; l++)
        s->by_layer.parts[l] = LAYER_FFN | (has[l] ? LAYER_ATTENTION : LAYER_RECURRENT);
    return r;
}

/* Each layer has one part. */
static int one_part(struct hparams *s, const struct keys *k)
{
    uint8_t heads[HPARAMS_LAYERS_MAX], ffn[HPARAMS_LAYERS_MAX];
    int r = of_layers(s, k, KV_HEADS, 4096, &s->kv_heads, heads);
    if (!r) r = of_layers(s, k, FFN, 1 << 20, &s->ffn, ffn);
    for (uint32_t l = 0; !r && l < s->n_layers; l++) {
        if (heads[l] && ffn[l])
            r = error_say(-EOPNOTSUPP,
                          "%s: layer %u has attention ('%s." KV_HEADS "') and a feed-forward ('%s." FFN "')",
                          gguf_path(k->g), l, k->arch, k->arch);
        s->by_layer.parts[l] = heads[l] ? LAYER_ATTENTION : ffn[l] ? LAYER_FFN : LAYER_RECURRENT;
    }
    return r;
}

/* All layers but every n-th are recurrent, or those with a true in an array. */
static int all_but_every(struct hparams *s, const struct keys *k)
{
    char full[96];
    uint32_t every = 4;
    const struct gguf_kv *kv = gguf_find(k->g, keys_name(k, full, "attention.recurrent_layers"));
    if (kv && (kv->type != GGUF_ARRAY || kv->elem != GGUF_BOOL || kv->n < s->n_layers))
        return error_say(-EINVAL, "%s: key '%s' is not an array of %u booleans, one for each layer", gguf_path(k->g),
                         full, s->n_layers);
    int r = keys_u32(k, &every, "full_attention_interval", OPTIONAL, 1, HPARAMS_LAYERS_MAX);
    for (uint32_t l = 0; !r && l < s->n_layers; l++)
        if (kv ? ((const uint8_t *)kv->value)[l] != 0 : (l + 1) % every != 0)
            s->by_layer.parts[l] = LAYER_FFN | LAYER_RECURRENT;
    return r;
}

int hparams_layers(struct hparams *s, const struct keys *k)
{
    const struct arch_recurrent *a = &s->desc->recurrent;
    uint8_t parts = LAYER_ATTENTION | LAYER_FFN;
    if (a->kind && a->where == RECURRENT_BESIDE) parts |= LAYER_RECURRENT;
    if (a->kind && a->where == RECURRENT_ALONE) parts = LAYER_RECURRENT;
    memset(s->by_layer.parts, parts, s->n_layers);
    if (a->kind && a->where == RECURRENT_ALONE) return 0;
    if (a->kind && a->where == RECURRENT_OR_FFN) return one_part(s, k);
    if (a->kind && a->where == RECURRENT_WITHOUT_HEADS && is_array(k, KV_HEADS)) return without_heads(s, k);
    if (a->kind && a->where == RECURRENT_BUT_EVERY_NTH) {
        int r = all_but_every(s, k);
        if (r) return r;
    }
    if (s->desc->attention.two_heads && is_array(k, KV_HEADS)) return 0; /* hparams_read_layers */
    return keys_u32(k, &s->kv_heads, KV_HEADS, OPTIONAL, 1, 4096);
}

/* LFM2's convolution of all channels, between two gates. */
static int short_convolution(struct hparams *s, const struct keys *k)
{
    struct hparams_recurrent *r = &s->recurrent;
    int e = keys_u32(k, &r->taps, "shortconv.l_cache", REQUIRED, 2, RECURRENT_TAPS_MAX);
    r->channels = r->out = s->dim;
    r->in[0] = 3 * s->dim;
    r->floats = (r->taps - 1) * r->channels;
    return e;
}

static int mamba2(struct hparams *s, const struct keys *k)
{
    struct hparams_recurrent *r = &s->recurrent;
    int e = keys_u32(k, &r->taps, "ssm.conv_kernel", REQUIRED, 2, RECURRENT_TAPS_MAX);
    if (!e) e = keys_u32(k, &r->out, "ssm.inner_size", REQUIRED, 16, 1 << 18);
    if (!e) e = keys_u32(k, &r->state, "ssm.state_size", REQUIRED, 1, 1024);
    if (!e) e = keys_u32(k, &r->heads, "ssm.time_step_rank", REQUIRED, 1, 1 << 14);
    if (!e) e = keys_u32(k, &r->groups, "ssm.group_count", REQUIRED, 1, 1024);
    if (e) return e;
    if (r->out % r->heads || r->out / r->heads % 16)
        return error_say(-EOPNOTSUPP,
                         "%s: key '%s.ssm.inner_size' is %u, which '%s.ssm.time_step_rank', %u, does not divide into "
                         "heads of a multiple of 16",
                         gguf_path(k->g), k->arch, r->out, k->arch, r->heads);
    if (r->heads % r->groups)
        return error_say(-EINVAL, "%s: key '%s.ssm.group_count' is %u, which does not divide %u heads", gguf_path(k->g),
                         k->arch, r->groups, r->heads);
    r->head_dim = r->out / r->heads;
    r->channels = r->out + 2 * r->groups * r->state;
    r->in[0] = r->out + r->channels + r->heads;
    r->floats = (r->taps - 1) * r->channels + r->out * r->state;
    return 0;
}

/* The gated delta rule: q, k and v go through one convolution. */
static int delta_rule(struct hparams *s, const struct keys *k, bool apart)
{
    struct hparams_recurrent *r = &s->recurrent;
    uint32_t inner = 0;
    int e = keys_u32(k, &r->taps, "ssm.conv_kernel", REQUIRED, 2, RECURRENT_TAPS_MAX);
    if (!e) e = keys_u32(k, &r->head_dim, "ssm.state_size", REQUIRED, 16, HPARAMS_DELTA_MAX);
    if (!e) e = keys_u32(k, &r->key_heads, "ssm.group_count", REQUIRED, 1, 1024);
    if (!e) e = keys_u32(k, &r->heads, "ssm.time_step_rank", REQUIRED, 1, 1024);
    if (!e) e = keys_u32(k, &inner, "ssm.inner_size", REQUIRED, 1, 1 << 18);
    if (e) return e;
    if (r->head_dim % 16)
        return error_say(-EOPNOTSUPP, "%s: key '%s.ssm.state_size' is %u, which is no multiple of 16", gguf_path(k->g),
                         k->arch, r->head_dim);
    if (r->heads % r->key_heads)
        return error_say(-EINVAL,
                         "%s: key '%s.ssm.time_step_rank' is %u, which is no multiple of 'ssm.group_count', %u",
                         gguf_path(k->g), k->arch, r->heads, r->key_heads);
    if (inner != r->heads * r->head_dim)
        return error_say(-EINVAL, "%s: key '%s.ssm.inner_size' is %u, but %u heads of %u values are %u",
                         gguf_path(k->g), k->arch, inner, r->heads, r->head_dim, r->heads * r->head_dim);
    r->out = inner;
    r->channels = 2 * r->key_heads * r->head_dim + inner;
    r->in[0] = r->channels;
    r->in[1] = inner;
    r->in[2] = apart ? r->heads : 2 * r->heads;
    r->in[3] = apart ? r->heads : 0;
    r->floats = (r->taps - 1) * r->channels + inner * r->head_dim;
    return 0;
}

static int of_kind(struct hparams *s, const struct keys *k)
{
    switch (s->desc->recurrent.kind) {
    case RECURRENT_CONV:
        return short_convolution(s, k);
    case RECURRENT_MAMBA2:
        return mamba2(s, k);
    case RECURRENT_DELTA:
    case RECURRENT_DELTA_TILED:
        return delta_rule(s, k, s->desc->recurrent.kind == RECURRENT_DELTA_TILED);
    case RECURRENT_NONE:
        break;
    }
    return 0;
}

int hparams_recurrent(struct hparams *s, const struct keys *k)
{
    uint32_t attention = 0, recurrent = 0;
    for (uint32_t l = 0; l < s->n_layers; l++) {
        attention += s->by_layer.parts[l] & LAYER_ATTENTION && hparams_own_kv(s, l);
        recurrent += (s->by_layer.parts[l] & LAYER_RECURRENT) != 0;
    }
    if (s->embedding.whole) attention = 0; /* nothing is cached */
    s->groups[0] = (struct kv_group){.n_layers = attention, .kind = KV_FULL};
    s->n_groups = 1;
    if (!recurrent) return 0;
    int r = of_kind(s, k);
    s->groups[s->n_groups++] =
        (struct kv_group){.n_layers = recurrent,
                          .kind = KV_STATE,
                          .state_bytes = kern_align((size_t)recurrent * s->recurrent.floats * sizeof(float))};
    return r;
}
