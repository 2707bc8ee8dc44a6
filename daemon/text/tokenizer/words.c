/* SPDX-License-Identifier: MIT */
/* The tokens of the vocabularies that find them in the text as they are, not by merging. */
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>

/* A search may look at so many bytes from each byte of a text on. No known vocabulary has half of it. */
#define WORD_BYTES_MAX 1024

int words_init(struct tokenizer *t, bool (*take)(const struct tokenizer *t, uint32_t id))
{
    _cleanup_(freep) uint32_t *ids = reallocarray(NULL, t->n, sizeof(*ids));
    size_t n = 0;
    if (!ids) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < t->n; i++) {
        size_t len;
        strings_at(&t->keys, i, &len);
        if (!len || !take(t, i)) continue;
        if (len > WORD_BYTES_MAX)
            return error_say(-EINVAL, "tokenizer.ggml.tokens: token %u has %zu bytes (at most %d)", i, len,
                             WORD_BYTES_MAX);
        ids[n++] = i;
    }
    return trie_init(&t->words.trie, &t->keys, ids, n);
}
