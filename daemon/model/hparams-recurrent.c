/* SPDX-License-Identifier: MIT */
#include "daemon/model/hparams-read.h"
#include "libcommon/error.h"

#define KV_HEADS "attention.head_count_kv"

/* The key as an array: KV heads of each layer, 0 in layers without attention. All other layers have as many. */
static int heads_of_layers(struct hparams *s, const struct keys *k, const struct gguf_kv *kv)
{
    char full[96];
    keys_name(k, full, KV_HEADS);
    if ((kv->elem != GGUF_I32 && kv->elem != GGUF_U32) || kv->n != s->n_layers)
        return error_say(-EINVAL, "%s: key '%s' is not an array of %u numbers, one for each layer", gguf_path(k->g),
                         full, s->n_layers);
    uint32_t heads = 0;
    for (uint32_t l = 0; l < s->n_layers; l++) {
        int32_t n = gguf_array_i32(kv, l);
        if (n < 0 || n > 4096)
            return error_say(-EINVAL, "%s: key '%s' has %d at index %u, not a number from 0 to 4096", gguf_path(k->g),
                             full, n, l);
        if (n && heads && (uint32_t)n != heads)
            return error_say(-EOPNOTSUPP, "%s: key '%s' has %u and %d; layers with other numbers are not supported",
                             gguf_path(k->g), full, heads, n);
        if (n) heads = (uint32_t)n;
        s->parts[l] = LAYER_FFN | (n ? LAYER_ATTENTION : LAYER_RECURRENT);
    }
    if (!heads) return error_say(-EINVAL, "%s: key '%s' has only zeros", gguf_path(k->g), full);
    s->kv_heads = heads;
    return 0;
}

int hparams_layers(struct hparams *s, const struct keys *k)
{
    char full[96];
    const struct gguf_kv *kv = gguf_find(k->g, keys_name(k, full, KV_HEADS));
    for (uint32_t l = 0; l < s->n_layers; l++) s->parts[l] = LAYER_ATTENTION | LAYER_FFN;
    if (kv && kv->type == GGUF_ARRAY && s->desc->recurrent.kind) return heads_of_layers(s, k, kv);
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

static int of_kind(struct hparams *s, const struct keys *k)
{
    switch (s->desc->recurrent.kind) {
    case RECURRENT_CONV:
        return short_convolution(s, k);
    case RECURRENT_NONE:
        break;
    }
    return 0;
}

int hparams_recurrent(struct hparams *s, const struct keys *k)
{
    uint32_t attention = 0, recurrent = 0;
    for (uint32_t l = 0; l < s->n_layers; l++) {
        attention += (s->parts[l] & LAYER_ATTENTION) != 0;
        recurrent += (s->parts[l] & LAYER_RECURRENT) != 0;
    }
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
