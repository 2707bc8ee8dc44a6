/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The interface of a backend. The engine and the cache handle block ids and token batches; only a backend accesses
 * tensor memory. All calls come from one thread, except verify_weights, keep_weights, fingerprint, kv_identity, kv_read
 * and kv_write, whose comments state which other calls may run at the same time.
 */
#include "daemon/model/device.h"
#include "daemon/model/fingerprint.h"
#include "daemon/model/hparams.h"
#include "daemon/model/kv-block.h"
#include "daemon/model/timing.h"
#include "kernels/kernels.h"
#include <stdatomic.h>

struct adapter;
struct backend;
struct compute_pool;

enum batch_want { WANT_NOTHING = 0, WANT_LOGITS = 1, WANT_HIDDEN = 2, WANT_BEST = 4 }; /* bits; several may be set */

/* Store the state after the first @n tokens of an entry to @block. */
struct state_save {
    uint32_t n, block;
};

/*
 * The state of a sequence in the recurrent layers, a block of the group KV_STATE: before the entry that after the
 * tokens before its position, after it that after its last token. At position 0 the block's content is ignored and the
 * state is zero. The recurrence is defined token by token in the order of positions, so a state is a function of the
 * tokens alone, not of the entries that computed it.
 */
struct batch_state {
    uint32_t block;
    uint32_t n_saves;
    const struct state_save *saves; /* [n_saves], n ascending, each from 1 to the entry's n; no block is used twice */
};

/*
 * A run of consecutive tokens of one sequence, or of embeddings in their place.
 *
 * Visible positions of a query at position p, with n = sinks and W = window > 0: for p < n + W, positions 0 … p, as
 * without a window. For p >= n + W, the sinks 0 … n-1 and the window p-W+1 … p. Keys keep their rotation, at their own
 * positions. For the window the query is rotated to p; for the sinks it is rotated to p' = n + W - 1. Sink i is then at
 * distance p' - i, as if the sinks were directly before the window, at p-W+1-n … p-W. At the last position that sees
 * everything, p' = p.
 *
 * The visible positions are cut into parts at multiples of KV_SEGMENT: first the sinks, then the window. A segment with
 * some of both is two parts. Each part is computed as a segment, and the parts are merged in this order. So the result
 * of a token is a function of the tokens, the position, n and W, and of no position that neither the token nor the
 * tokens it sees can see.
 *
 * Visible positions of a query of a whole run (@whole): up to the run's last one, in every layer, and the run ends with
 * the entry. The first visible position is that of any other query: 0, or p-W+1 in a layer with a sliding window W. So
 * a window hides what is too far before the query, and nothing behind it. llama.cpp computes the images of Gemma 3 like
 * this: for their batch mtmd switches causal attention off, and with a standard window the mask then hides a key at p0
 * from a query at p1 only if p1 - p0 >= W. Segments and their order are as above. So the result of an item is a
 * function of the items up to the end of its run. The KV of a run's first items may be in the cache already, computed
 * with the same whole run; all of its other items are in the entry. A part of them would give results of another run,
 * which forward cannot detect.
 *
 * A model with hparams.embedding.whole computes each text in one entry with @whole, from position 0 on: all its tokens
 * see each other, in layers with a symmetric window W those at most W/2 positions away. So a text has at most
 * batch_tokens tokens. Nothing is cached: @blocks is not read and may be NULL. There are no logits; WANT_HIDDEN gives a
 * token's row.
 */
struct batch_entry {
    const uint32_t *const *blocks;   /* [n_groups] -> block table covering positions 0 … pos+n-1 (n/32 rounded up); in
                                      * that of a KV_WINDOW group, blocks that no token of the entry sees may be
                                      * KV_NO_BLOCK: they are never accessed; that of KV_STATE may be NULL */
    struct batch_state state;        /* where the model has recurrent layers */
    uint32_t pos;                    /* position of the first token; the KV cache has the visible ones of 0 … pos-1 */
    uint32_t n;                      /* tokens, >= 1 */
    const int32_t *tokens;           /* [n], or NULL with */
    const float *embd;               /* [n][dim], as the first layer gets them: hparams' scale is not applied; learned
                                      * positions are added */
    const float *states;             /* [n][dim] of an MTP layer (mtp_of), beside tokens; else NULL */
    const struct item_place *places; /* [n] for RoPE, where the model has grids (hparams_grids); NULL: pos, pos + 1, …,
                                      * each three times. window is 0 if it is not NULL */
    uint32_t adapter;                /* the number of a loaded one (adapter_load), which all tokens have; 0: none */
    float adapter_scale;             /* of adapter_scale (model/adapter.h); finite */
    uint32_t sinks, window;          /* window 0: a token sees all before it; sinks is 0, pos + n <= ctx. Else as above:
                                      * sinks + window <= ctx, pos + n <= 2^31, and blocks that no token of the entry sees
                                      * may be KV_NO_BLOCK in the table: they are never accessed */
    bool whole;                      /* the entry ends a run whose items see each other, as above; window is 0 */
    const uint8_t *types;            /* [n] of tokens, below hparams.embedding.types; NULL: all 0 */
    const uint8_t *want;             /* [n] enum batch_want, or NULL: WANT_NOTHING */
    int32_t *best;                   /* [tokens with WANT_BEST], which forward writes; only where the backend picks */
};

/* Bytes of K and V of one block in one layer of a group: the same in all its layers, as many as the largest needs. */
static inline uint64_t backend_kv_bytes(const struct hparams *s, enum kern_kv type, uint32_t group)
{
    uint64_t most = 0;
    for (uint32_t window = 0; window < 2; window++) {
        const struct hparams_heads h = hparams_heads_of(s, window);
        const uint64_t bytes = (hparams_values(s) ? 2 : 1) * (uint64_t)h.kv_heads * kern_kv_bytes(type, h.head_dim);
        const bool split = s->n_groups > 1 && s->groups[1].kind == KV_WINDOW;
        if ((!split || window == group) && bytes > most) most = bytes;
    }
    return most;
}

#define BACKEND_TOKENS 512 /* of one forward, unless it is configured */

struct backend_config {
    const char *backend; /* name of a struct backend_type; NULL: that of the device */
    struct device_choice device;
    uint32_t threads;          /* 0: as many as suit the CPUs that the process may use */
    struct compute_pool *pool; /* borrowed: the threads of another backend, in place of own ones; NULL: own ones */
    uint32_t ctx;              /* longest sequence, already clamped to the model's */
    enum kern_kv kv_type;
    uint64_t kv_bytes;      /* the pools of all groups; rounded down to whole blocks */
    uint32_t states;        /* blocks of the group KV_STATE, at most; 0: a share of kv_bytes */
    uint32_t batch_tokens;  /* most tokens of one forward; 0: BACKEND_TOKENS, or more on a device */
    bool no_numa;           /* leave the placement of threads and memory to the kernel */
    bool window_group;      /* layers with a window get a KV group of their own (hparams_split) */
    const char *cpu;        /* HOB_CPU, or NULL */
    const char *packed_dir; /* directory for fingerprints of models and packed weights; NULL: neither is kept */
    bool no_packed_file;    /* packed weights are not kept there */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* while loading, may be NULL */
    void *progress_ctx;
    /* Borrowed, of the same file: load its first MTP layer (hparams_mtp) in place of the model, with the output matrix
     * of this backend if the layer has none of its own. NULL: load the model.
     *
     * An MTP layer predicts the token after the next one (DeepSeek-V3, https://arxiv.org/abs/2412.19437, section 2.2).
     * It reads pairs: the model's state of a token (WANT_HIDDEN), and the token that follows. x = W [norm(embedding);
     * norm(state)], then a block like the model's, a norm and the output matrix. Its logits are of the token behind
     * that one. With WANT_HIDDEN it writes the state to read with that token in turn. Its positions are those of the
     * pairs, from 0; it needs none of those before the first pair that it got. */
    const struct backend *mtp_of;
    /* Of a model: a backend of its MTP layer follows, with so many bytes of KV (0: none follows) and tokens of a
     * forward. The KV pool of a device leaves room for it, unless it needs more than a quarter of what there is for
     * KV. */
    struct {
        uint64_t kv_bytes;
        uint32_t batch_tokens;
    } mtp;
};

struct backend_ops {
    /* Run all entries as one batch (sum of n <= batch_tokens; entries may share no sequence). Each token with
     * WANT_LOGITS fills one row of @logits [rows][vocab], in order; each with WANT_HIDDEN one row of @hidden
     * [rows][dim], the state after the last norm; each with WANT_BEST one id of its entry's best: that of the largest
     * logit, of equal ones the lowest; -1 if that logit is not finite or all are NaN, which is passed over. Returns 0;
     * -EINVAL or -EOPNOTSUPP and the error message if the batch cannot be run, in which case nothing has run; -EIO and
     * the error message if a device has failed: the contents of all KV blocks are lost, and forward fails until
     * recover. */
    int (*forward)(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden);
    /* What follows pooling, of @n texts: @rows [n][dim], pooled as hparams_pooled(@kind) says -> @out
     * [n][hparams_outputs]. POOLING_RANK: the scores of the classifier, in a model with a softmax of its labels
     * (arch.h) their probabilities; else the vectors, projected if the file has projections. out may be rows if the
     * dimensions are the same. Returns 0; -EOPNOTSUPP and the error message if the file has no classifier. */
    int (*head)(struct backend *b, enum pooling kind, const float *rows, size_t n, float *out);
    /* Copy the first @tokens tokens of block @src to block @dst of @group, all layers; of KV_STATE the whole state. */
    void (*kv_copy)(struct backend *b, uint32_t group, uint32_t dst, uint32_t src, uint32_t tokens);
    /* Copy one block's payload (all layers, K then V), kv_group_payload bytes, out or in. Any thread may call
     * them while other calls run. No call may write a block during kv_read; other reads, also forward's, are allowed.
     * No other call may use a block during kv_write. The caller orders accesses to a block from several threads (by a
     * lock or a queue): the backend has no lock. A device may fail: kv_read then returns -EIO and the error message,
     * and *out is undefined; after a failed kv_write or kv_copy, all later calls of forward fail. 0: success. */
    int (*kv_read)(struct backend *b, uint32_t group, uint32_t block, void *out);
    void (*kv_write)(struct backend *b, uint32_t group, uint32_t block, const void *in);
    /* Give the memory of @n blocks from @first on back to the system, as far as possible. Their content is lost: until
     * they are written again, a read returns zeros or the old bytes. */
    void (*kv_release)(struct backend *b, uint32_t group, uint32_t first, uint32_t n);
    /* Take @bytes (> 0) of host memory that kv_read and kv_write copy to and from without another copy between, from
     * any thread; give it back, unless @p is NULL. NULL: the blocks are in host memory themselves. 0, *out is the
     * caller's, who calls host_free before the backend is freed; -ENOMEM or -EIO and the error message. */
    int (*host_alloc)(struct backend *b, size_t bytes, void **out);
    void (*host_free)(struct backend *b, void *p);
    /* As kv_read, to memory of host_alloc, but *out has the payload only when kv_saved, which any thread may call, has
     * returned 0 after it. Until then no kv_write may write the block; forward and kv_copy may, since they come behind
     * the copy. kv_saved waits for the copies; -EIO and the error message: some have failed. NULL where host_alloc is.
     */
    int (*kv_save)(struct backend *b, uint32_t group, uint32_t block, void *out);
    int (*kv_saved)(struct backend *b);
    /* Work that can wait until the model serves, but not until a result is kept: compare packed weights with their
     * checksums, or hash the model's file if no record has its fingerprint. From any thread, several at once, while
     * other calls run. 0: the weights are good; 1: *stop became true before; -EBADMSG and the error message: they are
     * damaged, and all results computed with them are invalid. */
    int (*verify_weights)(struct backend *b, const atomic_bool *stop);
    /* Work that only makes this start, or the next one, faster: write the packed weights, or move them to huge pages,
     * until *stop becomes true. Called once, after verify_weights has returned 0, from any thread, while other calls
     * run. */
    void (*keep_weights)(struct backend *b, const atomic_bool *stop);
    /* The model's fingerprint: 0, or 1 while it is not known. It is known at load if a record has it, else after
     * verify_weights has hashed the file, which can fail. From any thread. */
    int (*fingerprint)(const struct backend *b, struct fingerprint *out);
    int (*kv_identity)(const struct backend *b, uint8_t out[16]);                            /* backend_kv_identity */
    void (*logsumexp)(const struct backend *b, const float *logits, float *max, float *lse); /* backend_logsumexp */
    /* The threads of forward, for other work between its calls; NULL, or it returns NULL: there are none. */
    struct compute_pool *(*compute_pool)(struct backend *b);
    /* Call @fn for disjoint [begin, end) that together cover [0, n), @least at a time but for the last, with these
     * threads. NULL: there are none. */
    void (*share)(struct backend *b, void (*fn)(void *ctx, uint32_t begin, uint32_t end, uint32_t thread), void *ctx,
                  uint32_t n, uint32_t least);
    /* Load an adapter of this model, which must stay open as long as the backend; between calls of forward. On 0
     * *number is for struct batch_entry, and *bytes the memory that it takes. -EOPNOTSUPP: a tensor of a kind that is
     * not supported; -EINVAL, -E2BIG, -ENOMEM; with the error message. NULL: the backend has no adapters. */
    int (*adapter_load)(struct backend *b, const struct adapter *a, uint32_t *number, uint64_t *bytes);
    /* After forward has returned -EIO: go on without the device, with the same blocks, whose contents are undefined,
     * and with the same bits. No kv_write may be running. config.batch_tokens, isa, picks and kv_apart may change. 0;
     * -ENOMEM and the error message: all stays as it is. NULL: forward never returns -EIO. */
    int (*recover)(struct backend *b);
    struct backend *(*free)(struct backend *b); /* returns NULL */
    bool picks;                                 /* forward takes WANT_BEST */
    bool kv_apart;                              /* the blocks are in a device's memory: kv_release gives back nothing */
};

struct backend {
    const struct backend_ops *ops;
    struct hparams hparams;            /* groups' bytes_per_token filled in */
    struct backend_config config;      /* as resolved: threads, kv_bytes */
    const char *isa;                   /* instruction set in use; of static storage */
    char threads_text[96];             /* describes the threads and the CPUs they may use, for the log; may be empty */
    uint32_t kv_blocks[KV_GROUPS_MAX]; /* blocks of each group */
    uint64_t weight_bytes;             /* memory the weights take */
    bool weights_mapped;               /* mapped from the file of packed weights of an earlier start */
    struct timing
        *timing; /* [TIMING_PARTS], owned by the caller; forward adds to them; NULL (the default): not timed */
};

/* A kind of backend. */
struct backend_type {
    const char *name;
    /* As backend_new. */
    int (*new)(struct backend **out, const struct gguf *g, const struct backend_config *c);
    /* As backend_check. */
    int (*check)(const struct gguf *g, const struct hparams *h, size_t *bytes);
    /* As backend_is_packed. */
    int (*is_packed)(const struct gguf *g, const char *packed_dir);
    /* As backend_probe; NULL: there is always a device. */
    int (*probe)(const struct device_choice *c, bool start);
};

/* The backends of this program, NULL behind the last (daemon/backend/backends.c). A program that defines the table
 * itself has only the backends that it names. */
extern const struct backend_type *const backend_types[];

/* Find a backend by name; NULL: the first. Returns 0 and *out; -EINVAL and the error message, which has all names, if
 * the table has no such backend. */
int backend_find(const struct backend_type **out, const char *name);

/* Load the driver of the devices of @c, which may lie where a sandbox lets nothing be read later. With @start, find out
 * whether there are these devices: the driver starts, with threads of its own. 0; -ENODEV and the error message: why
 * they cannot be used. */
int backend_probe(const struct device_choice *c, bool start);

/* Load the weights of @g with the backend that @c names, or with that of its device: the first of the table is the
 * CPU's. DEVICE_AUTO tries the others before it, and logs why they are not used. @g must stay open as long as the
 * backend. On 0 *out is owned by the caller. On error returns -errno (backend_find), sets the error message and leaves
 * *out unset; for -ENOMEM the message has the bytes. */
int backend_new(struct backend **out, const struct gguf *g, const struct backend_config *c);

/* Check that the backend @name (backend_find) supports the tensors of @g, without reading their data. On 0 *bytes is
 * the memory that the weights need; on error -errno and the error message. */
int backend_check(const char *name, const struct gguf *g, const struct hparams *h, size_t *bytes);

/* Whether the directory has the model's weights in the form that the backend @name (backend_find) maps at load: 1 or 0;
 * -errno: it cannot be looked up; sets the error message. Reads neither the model's tensors nor the packed ones, so
 * they may still turn out to be damaged. */
int backend_is_packed(const char *name, const struct gguf *g, const char *packed_dir);

/* The identity of KV blocks: XXH3-128 of model, arithmetic, KV type and layout, RoPE, backend and its libm. The bits of
 * a block depend on these, on the tokens up to its end, their digests (which stand for whole runs, also where the block
 * ends inside one), the adapter and the context policy (sinks, window), and not on threads, instruction set or ctx.
 * Backends of equal identity may exchange blocks. 0, or 1 while the fingerprint is not known. From any thread. */
static inline int backend_kv_identity(const struct backend *b, uint8_t out[16])
{
    return b->ops->kv_identity(b, out);
}

/* Logits [vocab] of one token: *max is the largest, *lse the logarithm of the sum of exp(logit - *max). The logprob of
 * token i is (logits[i] - *max) - *lse. Bit-equal on all backends of equal identity. */
static inline void backend_logsumexp(const struct backend *b, const float *logits, float *max, float *lse)
{
    b->ops->logsumexp(b, logits, max, lse);
}

/* NULL ok, returns NULL. */
static inline struct backend *backend_free(struct backend *b)
{
    return b ? b->ops->free(b) : NULL;
}
