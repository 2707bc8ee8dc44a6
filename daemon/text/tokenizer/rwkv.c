/* SPDX-License-Identifier: MIT */
/* RWKV's World vocabulary: the longest token from left to right, byte by byte. */
#include "daemon/text/tokenizer/vocab.h"

int rwkv_encode(const struct tokenizer *t, const char *s, uint32_t begin, uint32_t end, struct tokens *out)
{
    int r = 0;
    for (uint32_t i = begin; i < end && r == 0;) {
        int32_t id = t->unk;
        uint32_t len = (uint32_t)trie_longest(&t->words.trie, s + i, end - i, &id);
        i += len ? len : 1;
        if (id >= 0) r = tokens_push(out, id, i);
    }
    return r;
}

static bool may_take(const struct tokenizer *t, uint32_t id)
{
    return token_mergeable(t, (int32_t)id);
}

int rwkv_init(struct tokenizer *t)
{
    return words_init(t, may_take);
}
