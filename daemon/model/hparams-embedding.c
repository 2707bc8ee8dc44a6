/* SPDX-License-Identifier: MIT */
/* The keys of models that give a text a vector or scores. */
#include "daemon/model/hparams-read.h"
#include "libcommon/error.h"
#include <math.h>

static int pooling(struct hparams *s, const struct keys *k)
{
    char full[96];
    uint32_t kind = POOLING_NONE;
    int r = gguf_get_u32(k->g, keys_name(k, full, "pooling_type"), &kind);
    if (r < 0) return r;
    if (!pooling_name(kind))
        return error_say(-EINVAL, "%s: key '%s' is %u; it must be 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank)",
                         gguf_path(k->g), full, kind);
    s->embedding.pooling = (enum pooling)kind;
    return 0;
}

/* The scores' names; their number is that of the classifier's outputs. */
static int labels(struct hparams *s, const struct keys *k)
{
    char full[96];
    const struct gguf_kv *kv = gguf_find(k->g, keys_name(k, full, "classifier.output_labels"));
    s->embedding.labels = 1;
    if (!kv) return 0;
    if (kv->type != GGUF_ARRAY || kv->elem != GGUF_STRING || !kv->n || kv->n > HPARAMS_LABELS_MAX)
        return error_say(-EINVAL, "%s: key '%s' is not an array of 1 to %u strings", gguf_path(k->g), full,
                         HPARAMS_LABELS_MAX);
    s->embedding.labels = (uint32_t)kv->n;
    return 0;
}

/* The types of tokens: sentence A, sentence B. */
static int types(struct hparams *s, const struct gguf *g)
{
    static const char key[] = "tokenizer.ggml.token_type_count";
    const enum arch_need need = s->desc->encoder.types;
    if (need == ARCH_NEVER || (need == ARCH_MAY && !gguf_find_tensor(g, "token_types.weight"))) return 0;
    int r = gguf_get_u32(g, key, &s->embedding.types);
    if (r > 0) return error_say(-EINVAL, "%s: key '%s' is missing", gguf_path(g), key);
    if (!r && (s->embedding.types < 1 || s->embedding.types > UINT8_MAX + 1))
        return error_say(-EINVAL, "%s: key '%s' is %u, not a number from 1 to %u", gguf_path(g), key,
                         s->embedding.types, UINT8_MAX + 1);
    return r;
}

int hparams_read_embedding(struct hparams *s, const struct keys *k)
{
    char full[96];
    const bool encoder = s->desc->encoder.is;
    bool causal = !encoder;
    int r = gguf_get_bool(k->g, keys_name(k, full, "attention.causal"), &causal);
    if (r < 0) return r;
    if (causal == encoder)
        return error_say(-EOPNOTSUPP, "%s: key '%s' is %s; only %s is supported in a '%s' model", gguf_path(k->g), full,
                         causal ? "true" : "false", causal ? "false" : "true", s->arch);
    s->embedding.whole = encoder;
    s->embedding.of_last = !encoder;
    s->embedding.of_mean = s->desc->encoder.ranks_mean;
    r = pooling(s, k);
    if (!r) r = labels(s, k);
    return r ? r : types(s, k->g);
}

uint32_t hparams_outputs(const struct hparams *s, enum pooling kind)
{
    return kind == POOLING_RANK ? s->embedding.labels : s->dim;
}

float hparams_slope(const struct hparams *s, uint32_t head)
{
    uint32_t n = 1;
    while (2 * n <= s->heads) n *= 2;
    const double steps = head < n ? (head + 1.0) / n : (2.0 * (head - n) + 1) / (2.0 * n);
    return (float)exp2(-(double)s->desc->encoder.alibi * steps);
}
