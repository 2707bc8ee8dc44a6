/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Merging adjacent symbols, best pair first, leftmost among equals: what SentencePiece and BPE have in common. A heap
 * of candidate pairs; n symbols cost n log n.
 */
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/buf.h"

struct symbol {
    uint32_t off, len;   /* into the text being merged; len 0: merged into its left neighbour */
    uint32_t prev, next; /* SYMBOL_NONE at the ends */
    int32_t id;          /* its token, or -1 */
};
#define SYMBOL_NONE UINT32_MAX

struct merge_candidate {
    uint64_t key;  /* order of the merge, then position: the lowest is taken */
    uint32_t size; /* of both together: tells whether one of them has changed since */
    int32_t id;    /* what they become */
};

/* Working memory, reused from piece to piece. {0} is a new one. */
struct merger {
    struct symbol *symbols;
    size_t n, cap;
    struct merge_candidate *heap;
    size_t heap_n, heap_cap;
    struct buf norm; /* SPM: the text with U+2581 for spaces */
};

void merger_fini(struct merger *m);
/* Forgets the symbols of the last piece. */
void merger_reset(struct merger *m);
/* Appends a symbol behind the last one. 0 or -ENOMEM. */
int merger_add(struct merger *m, uint32_t off, uint32_t len, int32_t id);

/* Whether @l and @r, neighbours, can be merged: into *id, as the *order-th. */
typedef bool (*merge_fn)(const struct tokenizer *t, const char *text, const struct symbol *l, const struct symbol *r,
                         uint32_t *order, int32_t *id);

/* bpe.c: by the list of merges. */
bool bpe_pair(const struct tokenizer *t, const char *text, const struct symbol *l, const struct symbol *r,
              uint32_t *order, int32_t *id);

/* Merges until nothing can be. 0 or -ENOMEM. Symbol 0 stays the first; follow next from there. */
int merger_run(struct merger *m, const struct tokenizer *t, const char *text, merge_fn fn);
