/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Merges adjacent symbols, best pair first, leftmost among equals. SentencePiece and BPE share this. Candidate pairs
 * are in a heap; n symbols cost n log n.
 */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

struct symbol {
    uint32_t off, len;   /* offset and length in the text; len 0: merged into its left neighbour */
    uint32_t prev, next; /* SYMBOL_NONE at the ends */
    int32_t id;          /* token, or -1 */
};
#define SYMBOL_NONE UINT32_MAX

struct merge_candidate {
    uint64_t key;  /* order of the merge, then position: the lowest key is merged first */
    uint32_t size; /* of both symbols together: differs if one of them has changed since */
    int32_t id;    /* token of the merged symbol */
};

/* Working memory, reused from piece to piece. {0} is an empty merger. */
struct merger {
    struct symbol *symbols;
    size_t n, cap;
    struct merge_candidate *heap;
    size_t heap_n, heap_cap;
    struct buf norm; /* SPM: the text with U+2581 for spaces */
};

void merger_fini(struct merger *m);
/* Removes the symbols of the last piece. */
void merger_reset(struct merger *m);
/* Appends a symbol behind the last one. 0 or -ENOMEM. */
int merger_add(struct merger *m, uint32_t off, uint32_t len, int32_t id);

/* True if the neighbours @l and @r can be merged: *id is the token, *order the position of the merge in the order. */
typedef bool (*merge_fn)(const struct tokenizer *t, const char *text, const struct symbol *l, const struct symbol *r,
                         uint32_t *order, int32_t *id);

/* bpe.c: a merge_fn that reads the list of merges. */
bool bpe_pair(const struct tokenizer *t, const char *text, const struct symbol *l, const struct symbol *r,
              uint32_t *order, int32_t *id);

/* Merges until no pair can be merged. 0 or -ENOMEM. Symbol 0 stays the first; follow next from there. */
int merger_run(struct merger *m, const struct tokenizer *t, const char *text, merge_fn fn);
