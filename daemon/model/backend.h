/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The seam between who decides (engine, cache: block ids and token batches) and who computes (tensor memory). The CPU
 * backend is the first. All calls come from one thread, but for upkeep, fingerprint, kv_identity, kv_read and kv_write,
 * which say for themselves what may go on beside them.
 */
#include "daemon/model/fingerprint.h"
#include "daemon/model/shape.h"
#include "daemon/model/timing.h"
#include "kernels/kernels.h"
#include <stdatomic.h>

struct backend;

#define KV_NO_BLOCK UINT32_MAX

enum batch_want { WANT_NOTHING = 0, WANT_LOGITS = 1, WANT_HIDDEN = 2 }; /* bits: both may be wanted */

/*
 * A run of consecutive tokens of one sequence.
 *
 * What a query at position p sees of a sequence with n = sinks, W = window > 0: up to p = n + W - 1, positions 0 … p,
 * exactly as without a window. From p = n + W on, the sinks 0 … n-1 and the window p-W+1 … p. Keys stay as they were
 * rotated, at their own positions. For the window the query is rotated to p; for the sinks to p' = n + W - 1: then sink
 * i is at distance p' - i, as if the sinks stood right before the window, at p-W+1-n … p-W (p' = p at the last position
 * that sees everything, so nothing jumps). The arithmetic: what is seen is cut into parts at multiples of KV_SEGMENT,
 * the sinks into theirs, then the window into its own, so that a segment with some of both is two parts; each is
 * computed as a segment is, and they are merged in this order, positions ascending. So a token's result is a function
 * of tokens, position, n and W, and of no position that is not seen by it or by the tokens it sees.
 */
struct batch_entry {
    const uint32_t *const *blocks; /* [n_groups] -> block table covering positions 0 … pos+n-1 (n/32 rounded up) */
    uint32_t pos;                  /* position of the first token; what is seen of 0 … pos-1 is in the KV cache */
    uint32_t n;                    /* tokens, >= 1 */
    const int32_t *tokens;         /* [n], or NULL with */
    const float *embd;             /* [n][dim] */
    uint32_t adapter;              /* 0: none */
    uint32_t sinks, window;        /* window 0: everything up to itself is seen (sinks 0 too), pos + n <= ctx. Else as
                                    * above: sinks + window <= ctx, pos + n <= 2^31, and blocks that no token of the entry
                                    * sees may be KV_NO_BLOCK in the table: they are never touched */
    const uint8_t *want;           /* [n] enum batch_want, or NULL: nothing */
};

struct backend_config {
    uint32_t threads; /* 0: physical cores */
    uint32_t ctx;     /* longest sequence, already clamped to the model's */
    enum kern_kv kv_type;
    uint64_t kv_bytes;      /* the pool; rounded down to whole blocks */
    uint32_t batch_tokens;  /* most tokens of one forward */
    const char *cpu;        /* HOB_CPU, or NULL */
    const char *packed_dir; /* where packed weights are kept for the next start; NULL: nowhere */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* while loading, may be NULL */
    void *progress_ctx;
};

struct backend_ops {
    /* Run all entries as one batch (sum of n <= batch_tokens; entries may share no sequence). For every token that
     * wants logits, in order, one row of @logits [rows][vocab]; hidden state (after the last norm): the same with
     * [dim] in @hidden. 0; -EINVAL or -EOPNOTSUPP with a sentence for a batch that cannot be run (nothing was). */
    int (*forward)(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden);
    /* Copy the first @tokens tokens of block @src to block @dst of @group, all layers. */
    void (*kv_copy)(struct backend *b, uint32_t group, uint32_t dst, uint32_t src, uint32_t tokens);
    /* One block's payload (all layers, K then V), KV_BLOCK * bytes_per_token bytes, out and in. From any threads, while
     * other calls go on: kv_read of a block that nobody writes meanwhile (others may read it, forward too), kv_write of
     * one that nobody else uses. Whoever hands a block from one thread to another orders their accesses (a lock, a
     * queue): the backend has none. */
    void (*kv_read)(struct backend *b, uint32_t group, uint32_t block, void *out);
    void (*kv_write)(struct backend *b, uint32_t group, uint32_t block, const void *in);
    /* @n blocks from @first on hold nothing that is still wanted: as much of their memory as can be goes back to the
     * system, and is taken again where they are written next. What is read of them until then is zero, or what they
     * held. */
    void (*kv_release)(struct backend *b, uint32_t group, uint32_t first, uint32_t n);
    /* What can wait until the model serves: packed weights are verified or written, the model's file is hashed where no
     * record told its fingerprint. Once, from any one thread, while other calls go on. 0; -EBADMSG with a sentence: the
     * weights are damaged, and what was computed with them is worth nothing. 0 also when *stop became true, so that
     * only 0 with *stop still false proves the weights: until then nothing that was computed may be kept. */
    int (*upkeep)(struct backend *b, const atomic_bool *stop);
    /* Which model it is: 0, or 1 while that is not known. Known at load where a record tells, else once upkeep has
     * hashed the file, which can fail. From any thread. */
    int (*fingerprint)(const struct backend *b, struct fingerprint *out);
    int (*kv_identity)(const struct backend *b, uint8_t out[16]); /* backend_kv_identity */
    struct backend *(*free)(struct backend *b);                   /* returns NULL */
};

struct backend {
    const struct backend_ops *ops;
    struct shape shape;           /* groups' bytes_per_token filled in */
    struct backend_config config; /* as resolved: threads, kv_bytes */
    const char *isa;              /* kernel table's name */
    uint32_t kv_blocks;           /* blocks per group in the pool */
    uint64_t weight_bytes;        /* memory the weights take */
    bool weights_mapped;          /* they were packed by an earlier start, which has left a file */
    const struct kernels *kern;   /* also for logprobs in the engine */
    struct timing *timing; /* [TIMING_PARTS] of the caller's, forward adds to them; NULL (at first): to nothing */
};

/* Load the weights of @g on the CPU. @g must stay open as long as the backend. On 0 *out is owned by the caller.
 * -ENOMEM says how many bytes for what. */
int backend_cpu_new(struct backend **out, const struct gguf *g, const struct backend_config *c);

/* XXH3-128 of all that the bits of a KV block depend on besides the tokens up to its end, their digests, the adapter
 * and the context policy (sinks, window): model, arithmetic, KV type and layout, RoPE, backend and its libm. Not on
 * threads, instruction set or ctx. Blocks of equal identity may be exchanged. 0, or 1 while the fingerprint is not
 * known. From any thread. */
static inline int backend_kv_identity(const struct backend *b, uint8_t out[16])
{
    return b->ops->kv_identity(b, out);
}

static inline struct backend *backend_free(struct backend *b)
{
    return b ? b->ops->free(b) : NULL;
}
