/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer/trie.h"
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>

/* Tokens that share their first bytes: ids[lo .. hi). */
struct share {
    uint32_t lo, hi;
};

static int by_text(const void *a, const void *b, void *ctx)
{
    const struct strings *keys = ctx;
    size_t n, m;
    const char *x = strings_at(keys, *(const uint32_t *)a, &n), *y = strings_at(keys, *(const uint32_t *)b, &m);
    int r = memcmp(x, y, n < m ? n : m);
    return r ? r : (n > m) - (n < m);
}

/* Each token adds the bytes that it does not share with the one before it. */
static size_t count_nodes(const struct strings *keys, const uint32_t *ids, size_t n)
{
    size_t nodes = 1, before_len = 0;
    const char *before = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t len, same = 0;
        const char *s = strings_at(keys, ids[i], &len);
        while (same < len && same < before_len && s[same] == before[same]) same++;
        nodes += len - same;
        before = s;
        before_len = len;
    }
    return nodes;
}

static unsigned char byte_at(const struct strings *keys, uint32_t id, size_t depth)
{
    size_t len;
    return (unsigned char)strings_at(keys, id, &len)[depth];
}

/* Appends the children of node @i at @depth, whose tokens are @s. Returns the number of nodes then. */
static uint32_t add_children(struct trie *t, struct share *shares, uint32_t made, struct share s, size_t depth,
                             const struct strings *keys, const uint32_t *ids)
{
    while (s.lo < s.hi) {
        unsigned char c = byte_at(keys, ids[s.lo], depth);
        uint32_t to = s.lo + 1;
        while (to < s.hi && byte_at(keys, ids[to], depth) == c) to++;
        t->bytes[made] = c;
        shares[made++] = (struct share){s.lo, to};
        s.lo = to;
    }
    return made;
}

int trie_init(struct trie *t, const struct strings *keys, uint32_t *ids, size_t n)
{
    qsort_r(ids, n, sizeof(*ids), by_text, (void *)keys);
    size_t nodes = count_nodes(keys, ids, n); /* at most 1 GiB of text, so the numbers fit */
    _cleanup_(freep) struct share *shares = reallocarray(NULL, nodes, sizeof(*shares));
    t->first = reallocarray(NULL, nodes + 1, sizeof(*t->first));
    t->bytes = malloc(nodes);
    t->ids = reallocarray(NULL, nodes, sizeof(*t->ids));
    if (!shares || !t->first || !t->bytes || !t->ids) return error_origin(-ENOMEM);
    t->n = (uint32_t)nodes;
    t->bytes[0] = 0;
    shares[0] = (struct share){0, (uint32_t)n};

    uint32_t made = 1, level_end = 1;
    size_t depth = 0;
    for (uint32_t i = 0; i < made; i++) {
        if (i == level_end) {
            depth++;
            level_end = made;
        }
        struct share s = shares[i];
        size_t len = 0;
        if (s.lo < s.hi) strings_at(keys, ids[s.lo], &len);
        t->first[i] = made;
        t->ids[i] = i && len == depth ? (int32_t)ids[s.lo++] : -1;
        made = add_children(t, shares, made, s, depth, keys, ids);
    }
    t->first[nodes] = made;
    return 0;
}

void trie_fini(struct trie *t)
{
    free(t->first);
    free(t->bytes);
    free(t->ids);
    *t = (struct trie){0};
}

size_t trie_longest(const struct trie *t, const char *s, size_t len, int32_t *id)
{
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < len && (node = trie_next(t, node, s[i])); i++) {
        if (t->ids[node] < 0) continue;
        longest = i + 1;
        *id = t->ids[node];
    }
    return longest;
}
