/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A trie of the texts of tokens, byte by byte. Nodes are numbered level by level from the root, which is 0, so that the
 * children of a node have consecutive numbers: first[i] .. first[i + 1]. Nine bytes a node. Immutable once made.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct strings;

struct trie {
    uint32_t *first; /* [n + 1] */
    uint8_t *bytes;  /* [n] the byte that leads to the node */
    int32_t *ids;    /* [n] the token whose text ends here, or -1 */
    uint32_t n;
};

/* Makes the trie of the tokens @ids, whose texts are keys[id], not empty and all different. Sorts @ids. 0 or -ENOMEM;
 * trie_fini frees @t in either case. */
int trie_init(struct trie *t, const struct strings *keys, uint32_t *ids, size_t n);
void trie_fini(struct trie *t);

/* The child of @node for byte @c, or 0. */
static inline uint32_t trie_next(const struct trie *t, uint32_t node, char c)
{
    const uint8_t *list = t->bytes + t->first[node];
    const uint8_t *hit = memchr(list, (unsigned char)c, t->first[node + 1] - t->first[node]);
    return hit ? (uint32_t)(hit - t->bytes) : 0;
}

/* The length of the longest token that @s begins with, and the token in *id; 0: none. */
size_t trie_longest(const struct trie *t, const char *s, size_t len, int32_t *id);
