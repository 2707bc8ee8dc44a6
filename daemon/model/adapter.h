/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Low-rank adapters (LoRA, arXiv 2106.09685) in GGUF files, as llama.cpp's convert_lora_to_gguf.py writes them. For a
 * matrix W of the model the file has a pair of tensors, "NAME.lora_a", A [rank][columns of W], and "NAME.lora_b", B
 * [rows of W][rank]. The adapted product is W x + scale * (B (A x)); the scale of a request is multiplied by alpha /
 * rank (adapter_scale). For the embeddings of tokens, A is [vocabulary][rank] and B [dim][rank]: a token's row of A
 * takes the place of A x.
 *
 * An activated adapter (aLoRA, arXiv 2504.12397) has a list of tokens, its invocation. The model computes without the
 * adapter before the last invocation in a prompt, and with it from the first token of that on.
 */
#include "daemon/model/fingerprint.h"
#include "daemon/model/gguf.h"

#define ADAPTER_RANK_MAX       1024
#define ADAPTER_INVOCATION_MAX 256 /* tokens */

/* The tensors of one matrix of the model. */
struct adapter_pair {
    const struct gguf_tensor *of;    /* the model's */
    const struct gguf_tensor *a, *b; /* F32, F16 or BF16; all values are finite */
    uint32_t rank;
    bool rows; /* @of is the table of the tokens' embeddings: rows of @a are taken by token */
};

struct adapter {
    struct gguf *gguf;
    struct fingerprint digest;  /* of the file's bytes */
    float alpha;                /* 0: the scale is not divided by the rank */
    struct adapter_pair *pairs; /* [n_pairs] */
    size_t n_pairs;
    int32_t *invocation;   /* [n_invocation] tokens */
    uint32_t n_invocation; /* 0: the adapter is always active */
};

/* Open @path, an adapter of the model @base, which must stay open. Reads all of it. On 0 *out is owned by the caller.
 * On error returns -errno; -EINVAL: the file is no adapter, or not one of this model; -EOPNOTSUPP: of a kind that is
 * not supported. The error message names the file, and the tensor or key. */
int adapter_open(struct adapter **out, const char *path, const struct gguf *base);
struct adapter *adapter_close(struct adapter *a); /* NULL ok, returns NULL */

/* What B (A x) is multiplied by: scale * alpha / rank, from left to right in f32; @scale where alpha is 0. */
float adapter_scale(const struct adapter *a, uint32_t rank, float scale);

/* The position of the first of ids[n] that is computed with the adapter: 0, or where its last invocation begins; @n:
 * there is none. */
uint32_t adapter_from(const struct adapter *a, const int32_t *ids, uint32_t n);
