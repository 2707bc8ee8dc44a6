/* SPDX-License-Identifier: MIT */
#pragma once
/* Sequences that run on a backend, without the engine. */
#include "daemon/model/backend.h"
#include "tests/model/model-file.h"

/* Of tiny_backend. */
struct tiny_backend_config {
    const char *cpu;                             /* NULL: HOB_CPU */
    uint32_t threads, batch_tokens, ctx, blocks; /* 0: 1, 256, the model's, enough for 8 contexts */
    enum kern_kv kv_type;
    const char *packed_dir;
    bool no_packed_file, window_group;
    const char *backend;         /* NULL: the CPU's */
    struct device_choice device; /* of that backend */
};

/* A backend with the weights of @g. Fails the test on error; the caller frees it before it closes @g. */
struct backend *tiny_backend(const struct gguf *g, const struct tiny_backend_config *c);

/* Write @n pseudo-random token ids below @vocab. */
void seeded_tokens(int32_t *out, uint32_t n, uint32_t vocab, uint64_t seed);

/* One sequence: its tokens and blocks, the number of tokens computed, and the logits of every token. */
struct backend_seq {
    int32_t *tokens;
    uint32_t n, done, vocab;
    uint32_t sinks, window;  /* as in struct batch_entry */
    uint32_t *blocks;        /* [n_blocks] */
    uint32_t *window_blocks; /* [n_blocks] of the second group, owned by the test; NULL: as blocks */
    uint32_t state;          /* block of its state, from first_block / 8 on */
    uint32_t adapter;        /* as in struct batch_entry */
    float adapter_scale;
    const struct state_save *saves; /* of the next entry */
    uint32_t n_saves;
    uint32_t n_groups; /* with KV */
    const uint32_t *groups[KV_GROUPS_MAX];
    uint8_t *want;
    float *logits; /* [n][vocab] */
};

#define TINY_STATES 16 /* of tiny_backend */

/* @n tokens of @seed (seeded_tokens) in blocks first_block, first_block + 1, …, and its state in first_block / 8. The
 * caller calls backend_seq_fini. */
void backend_seq_init(struct backend_seq *s, const struct backend *b, uint32_t n, uint64_t seed, uint32_t first_block);
void backend_seq_fini(struct backend_seq *s);
/* The entry of the next @n tokens. It points into *s. */
struct batch_entry backend_seq_entry(struct backend_seq *s, uint32_t n);

/* Run the next n[i] tokens (0: none) of each sequence as one batch. */
void backend_seq_step(struct backend *b, struct backend_seq *seqs, const uint32_t *n, size_t n_seqs);
/* Run one sequence to its end in chunks. */
void backend_seq_run(struct backend *b, struct backend_seq *s, uint32_t chunk);

/* Compute the sequence of @all again as one batch in blocks from @first_block on, with the logits of some tokens
 * wanted, single ones and runs. Fails the test if they differ from those of @all. */
void backend_seq_some_wanted(struct backend *b, const struct backend_seq *all, uint32_t first_block);

/* Fails the test if the logits of any token differ. */
void backend_seq_same_logits(const struct backend_seq *a, const struct backend_seq *b);
