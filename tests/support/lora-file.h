/* SPDX-License-Identifier: MIT */
#pragma once
/* Random adapters of a model for tests, in the form of llama.cpp's convert_lora_to_gguf.py. mklora is the same on a
 * command line. */
#include "daemon/model/gguf.h"
#include "libcommon/buf.h"

struct lora_file {
    uint64_t seed;
    uint32_t rank;
    uint32_t type;    /* ggml's number: F32 (0), F16 (1) or BF16 (30) */
    float alpha;      /* 0: no such key */
    float size;       /* of what the adapter adds, beside inputs of the size 1; 0: 0.3 */
    const char *only; /* names of tensors, each with a comma behind it ("attn_q,ffn_up,"); NULL: all matrices of layers
                       * that can have one */
    const int32_t *invocation; /* [n_invocation] tokens of an activated adapter */
    uint32_t n_invocation;
};

/* {seed 1, rank 4, F32, alpha 8} */
void lora_file_init(struct lora_file *l);

/* Append the file of an adapter of @base to @out. 0 or -ENOMEM. */
int lora_file_bytes(struct buf *out, const struct lora_file *l, const struct gguf *base);
