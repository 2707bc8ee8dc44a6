/* SPDX-License-Identifier: MIT */
/* The scores of tokens, as all kinds of vocabularies with scores read them. */
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/error.h"

static const char key[] = "tokenizer.ggml.scores";

int scores_find(const struct tokenizer *t, const struct gguf *g, const char *model, const struct gguf_kv **out)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv || kv->type != GGUF_ARRAY || (kv->elem != GGUF_F32 && kv->elem != GGUF_I32))
        return error_say(-EINVAL, "%s: %s; a \"%s\" tokenizer needs this key", key,
                         kv ? "not an array of f32" : "no such key", model);
    if (kv->n != t->n)
        return error_say(-EINVAL, "%s: %llu entries for %u tokens", key, (unsigned long long)kv->n, t->n);
    *out = kv;
    return 0;
}

float scores_at(const struct gguf_kv *kv, uint32_t i)
{
    return kv->elem == GGUF_F32 ? gguf_array_f32(kv, i) : (float)gguf_array_i32(kv, i);
}
