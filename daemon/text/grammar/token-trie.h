/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The tokens of a vocabulary as a trie over their texts' bytes, in compact arrays, in the order of a depth-first walk:
 * a node's first child is the next node, and skip leads behind its subtree. Made once for a tokenizer. Control tokens
 * have no text. It also keeps what masks of different grammars share (mask-cache.h).
 *
 * Immutable but for the cache, which has its own lock: any thread may use it.
 */
#include "daemon/text/tokenizer/tokenizer.h"

struct mask_cache;

struct trie_node {
    uint32_t skip;  /* the first node behind the subtree */
    uint32_t token; /* the node's tokens begin here in tokens; they end where those of the next node begin */
    uint16_t depth; /* bytes up to here; the root has 0 */
    uint8_t byte;   /* the last one */
    uint8_t place;  /* behind it, inside a character (byte-groups.h) */
};

struct token_trie {
    struct trie_node *nodes; /* [n_nodes + 1] */
    uint64_t *below;         /* [n_nodes] groups of the bytes below each node, as its place has them */
    int32_t *tokens;         /* [n_tokens] those with text, in the order of the nodes */
    int32_t *ends;           /* [n_ends] ends of generation */
    uint32_t *deep;          /* [n_deep] nodes with RELAX_BYTES + 1 bytes (relax.h) */
    uint32_t children[256];  /* the root's children by their byte; 0: none */
    uint32_t n_deep, n_nodes, n_tokens, n_ends, vocab, max_len;
    uint32_t *text; /* [vocab + 1] offsets into texts */
    char *texts;
    uint64_t *is_end; /* [words] */
    struct mask_cache *cache;
    uint64_t id; /* of no other trie of this process */
};

/* 0, and the caller owns *out, which keeps nothing of @t; or -ENOMEM: sets the error message. */
int token_trie_new(struct token_trie **out, const struct tokenizer *t);
struct token_trie *token_trie_free(struct token_trie *t); /* NULL ok, returns NULL */

/* The words of a mask: one bit for each token. */
static inline size_t token_trie_words(const struct token_trie *t)
{
    return (t->vocab + 63) / 64;
}

/* The text of a token; NULL: it has none (control tokens, ends of generation, ids out of range). */
const char *token_trie_text(const struct token_trie *t, int32_t id, size_t *len);
bool token_trie_is_end(const struct token_trie *t, int32_t id);
size_t token_trie_bytes(const struct token_trie *t); /* memory, without the cache */
