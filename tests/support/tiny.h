/* SPDX-License-Identifier: MIT */
#pragma once
/* Small seeded GGUF models for tests: real architecture and tokenizer keys, random weights. The same struct gives the
 * same file, byte for byte. mktiny is the same on a command line. */
#include <stdbool.h>
#include <stdint.h>

struct tiny {
    uint64_t seed;
    uint32_t layers, dim, ffn, heads, kv_heads, ctx;
    uint32_t type; /* ggml's number for the matrices (tiny-quant.c has all that are known) */
    bool tied;
    const char *tokenizer;     /* "llama" (SentencePiece with byte tokens) or "gpt2" (bytes, some merges, <|im_start|>,
                                * <|im_end|>, <|endoftext|>), "t5", "bert", "rwkv" or "plamo2"; any other name: gpt2's
                                * vocabulary     under that name */
    const char *pre;           /* tokenizer.ggml.pre for gpt2: "smollm", "gpt-2", "llama-bpe" */
    const char *chat_template; /* NULL: a ChatML template */
    float rope_base;           /* 0: 10000 */
    float logit_size;          /* standard deviation of the logits, about; 0: 3 */
    const char *arch;          /* NULL: "llama"; a name of tiny_arch_find (which may set layers, head_dim and tied); any
                                * other: llama's tensors under that name */
    uint32_t head_dim;         /* 0: dim / heads; else told in attention.key_length */
    float rope_linear;         /* not 0: rope scaling "linear" with this factor */
    const char *fim;           /* fill-in-the-middle tokens behind all others: "texts" (<fim_prefix>, <fim_suffix>,
                                * <fim_middle>), "keys" (<a>, <b>, <c>, named by keys), "old-keys" (by the older ones),
                                * "mistral" ([PREFIX], [SUFFIX]); NULL: none */
    uint32_t pooling;          /* the key pooling_type, of models that give texts a vector; 0: none */
    bool harmony; /* <|start|>, <|channel|>, <|message|>, <|end|>, <|return|>, <|call|> behind all others */
    const char *const *controls; /* more control tokens, then NULL; NULL: none */
    const char *const *merges;   /* as controls: more merges for gpt2, each with its token; "a b" in GPT-2's alphabet */
    bool rope_freqs;             /* a tensor rope_freqs.weight that slows the low frequencies down, as Llama 3 has */
};

/* {seed 1, 2 layers, dim 64, ffn 96, 4 heads, 2 kv heads, ctx 512, Q8_0, tied, gpt2, smollm} */
void tiny_init(struct tiny *t);

/* Write the file; 0 or -errno (-EINVAL: a shape or type that cannot be written). */
int tiny_write(const struct tiny *t, const char *path);

/* ggml's number of "Q8_0", …, as in @type; -EINVAL when tiny_write does not know it. */
int tiny_type(const char *name);
