/* SPDX-License-Identifier: MIT */
#pragma once
/* Small seeded GGUF models for tests: real architecture and tokenizer keys, random weights. */
#include <stdbool.h>
#include <stdint.h>

struct tiny {
    uint64_t seed;
    uint32_t layers, dim, ffn, heads, kv_heads, ctx;
    uint32_t type;        /* ggml's number for the matrices: 0 F32, 1 F16, 2 Q4_0, 3 Q4_1, 8 Q8_0, 30 BF16 */
    bool tied;
    const char *tokenizer; /* "llama" (SentencePiece with byte tokens) or "gpt2" (bytes, some merges, <|im_start|>, <|im_end|>, <|endoftext|>) */
    const char *pre;       /* tokenizer.ggml.pre for gpt2: "smollm", "gpt-2", "llama-bpe" */
    const char *chat_template; /* NULL: a ChatML template */
    float rope_base;       /* 0: 10000 */
};

/* {seed 1, 2 layers, dim 64, ffn 96, 4 heads, 2 kv heads, ctx 512, Q8_0, tied, gpt2, smollm} */
void tiny_init(struct tiny *t);

/* Write the file; 0 or -errno. */
int tiny_write(const struct tiny *t, const char *path);
