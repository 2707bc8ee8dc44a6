/* SPDX-License-Identifier: MIT */
#pragma once
/* The vocabularies of tiny models. */
#include <stdbool.h>
#include <stdint.h>

enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_BYTE = 6 }; /* tokenizer.ggml.token_type */

struct vocab {
    struct vocab_token {
        char text[32];
        uint32_t kind;
        float score;
    } tokens[512];
    char merges[96][32]; /* gpt2: "a b" */
    uint32_t n, n_merges, bos, eos;
};

/* By tokenizer.ggml.model: "llama", "t5" and "plamo2" have the same texts and byte tokens, "bert" the texts, "rwkv" the
 * bytes and merged texts; any other name: byte-level BPE. NULL when out of memory; the caller frees. */
struct vocab *vocab_new(const char *model);
void vocab_free(struct vocab *v);
/* One more control token; returns its id. */
uint32_t vocab_control(struct vocab *v, const char *text);
/* One more merge, the last one, and its token: "a b" in the vocabulary's spelling; gpt2 only. */
void vocab_merge(struct vocab *v, const char *pair);

/* How much the random weights of a token count: readable text is likely, bytes less so, control tokens hardly. */
float vocab_weight(const struct vocab *v, uint64_t id);
