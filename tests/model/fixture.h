/* SPDX-License-Identifier: MIT */
#pragma once
/* What the tests of the model room share: GGUF files made by hand, tiny models, and a backend that is fed with
 * sequences. */
#include "daemon/model/backend.h"
#include "libcommon/buf.h"
#include "tests/support/tiny.h"

/* --- files --- */

/* A path of its own in TMPDIR, holding @n bytes; the caller frees and unlinks. */
char *fixture_file(const void *bytes, size_t n);

/* Open these bytes as a GGUF file (gone from its directory afterwards). As gguf_open. */
int fixture_open(struct gguf **out, const void *bytes, size_t n);

/* The file that tiny_write makes, as bytes. */
void fixture_tiny_bytes(struct buf *out, const struct tiny *t);
struct gguf *fixture_tiny(const struct tiny *t);

/* Offset of @what, which occurs (at least) once, in @b; fails the test when it does not. */
size_t fixture_where(const struct buf *b, const char *what);

/* Pieces of a file. */
void put_u32(struct buf *b, uint32_t v);
void put_u64(struct buf *b, uint64_t v);
void put_str(struct buf *b, const char *s);
void put_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv);
void put_key_u32(struct buf *b, const char *key, uint32_t v);
void put_key_f32(struct buf *b, const char *key, float v);
void put_key_str(struct buf *b, const char *key, const char *v);
void put_tensor(struct buf *b, const char *name, uint32_t type, uint64_t offset, uint32_t n_dims, const uint64_t *dims);
void put_zeros(struct buf *b, size_t n);
void put_padding(struct buf *b, size_t align);

/* --- backends --- */

struct fixture_config {
    const char *cpu;
    uint32_t threads, batch_tokens, ctx, blocks; /* 0: 1, 256, the model's, enough for 8 contexts */
    enum kern_kv kv_type;
    const char *packed_dir;
};

struct backend *fixture_backend(const struct gguf *g, const struct fixture_config *c);

/* Seeded token ids < vocab. */
void fixture_tokens(int32_t *out, uint32_t n, uint32_t vocab, uint64_t seed);

/* One sequence: its tokens, its blocks, how far it is computed, and the logits of every token. */
struct fixture_seq {
    int32_t *tokens;
    uint32_t n, done, vocab;
    uint32_t sinks, window; /* as in struct batch_entry */
    uint32_t *blocks;       /* [n_blocks] */
    const uint32_t *groups[1];
    uint8_t *want;
    float *logits; /* [n][vocab] */
};

/* @n seeded tokens in blocks first_block, first_block + 1, … */
void fixture_seq_init(struct fixture_seq *s, const struct backend *b, uint32_t n, uint64_t seed, uint32_t first_block);
void fixture_seq_fini(struct fixture_seq *s);
struct batch_entry fixture_entry(struct fixture_seq *s, uint32_t n); /* the next n tokens, all logits wanted */

/* Run the next n[i] tokens (0: none) of each sequence as one batch. */
void fixture_step(struct backend *b, struct fixture_seq *seqs, const uint32_t *n, size_t n_seqs);
/* Run one sequence to its end in chunks. */
void fixture_run(struct backend *b, struct fixture_seq *s, uint32_t chunk);

/* Compute a sequence like @all again, in one batch, with the logits of some tokens wanted, alone and in runs: they are
 * those of @all. */
void fixture_some_wanted(struct backend *b, const struct fixture_seq *all, uint32_t first_block);

void fixture_same_logits(const struct fixture_seq *a, const struct fixture_seq *b);
