/* SPDX-License-Identifier: MIT */
/* The keys of multi-head latent attention. */
#include "daemon/model/hparams-read.h"
#include "libcommon/error.h"

#define WIDEST 1024 /* values of K */

/* A width of a head: the key of files for compressed KV, else the one of older files. */
static int width(const struct keys *k, uint32_t *out, const char *name, const char *older)
{
    char full[96];
    const bool newer = gguf_find(k->g, keys_name(k, full, name));
    return keys_u32(k, out, newer ? name : older, REQUIRED, 1, WIDEST);
}

/* Newer files have these widths, too; older ones use the keys for the widths of a head. */
static int expect(const struct keys *k, const char *name, const char *mark, uint32_t want)
{
    char full[96];
    uint32_t has = want;
    if (!gguf_find(k->g, keys_name(k, full, mark))) return 0;
    int r = keys_u32(k, &has, name, OPTIONAL, 1, UINT32_MAX);
    if (r || has == want) return r;
    return error_say(-EINVAL, "%s: key '%s' is %u, but the ranks say %u", gguf_path(k->g), keys_name(k, full, name),
                     has, want);
}

int hparams_read_mla(struct hparams *s, const struct keys *k)
{
    struct hparams_mla *m = &s->mla;
    char full[96];
    uint32_t key = 0;
    float temperature = 0;
    int r = keys_u32(k, &m->kv_rank, "attention.kv_lora_rank", REQUIRED, 1, WIDEST - 2);
    if (!r) r = keys_u32(k, &m->q_rank, "attention.q_lora_rank", OPTIONAL, 0, 1 << 17);
    if (!r) r = keys_u32(k, &m->rope, "rope.dimension_count", REQUIRED, 2, WIDEST);
    if (!r) r = width(k, &key, "attention.key_length_mla", "attention.key_length");
    if (!r) r = width(k, &m->value, "attention.value_length_mla", "attention.value_length");
    if (r) return r;
    s->kv_heads = 1;
    s->head_dim = m->kv_rank + m->rope;
    m->nope = key - m->rope;
    if (key <= m->rope)
        return error_say(-EINVAL, "%s: keys of %u dimensions, of which '%s' rotates %u", gguf_path(k->g), key,
                         keys_name(k, full, "rope.dimension_count"), m->rope);
    if (s->head_dim > WIDEST)
        return error_say(-EINVAL, "%s: key '%s' is %u: with the rotated %u more than %d", gguf_path(k->g),
                         keys_name(k, full, "attention.kv_lora_rank"), m->kv_rank, m->rope, WIDEST);
    r = gguf_get_f32(k->g, keys_name(k, full, "attention.temperature_scale"), &temperature);
    if (r < 0) return r;
    if (temperature != 0 && !(s->desc->keys & KEY_TEMPERATURE))
        return error_say(-EOPNOTSUPP, "%s: key '%s' is %g, which is not supported in a '%s' model", gguf_path(k->g),
                         full, temperature, s->arch);
    r = expect(k, "attention.key_length", "attention.key_length_mla", s->head_dim);
    return r ? r : expect(k, "attention.value_length", "attention.value_length_mla", m->kv_rank);
}
