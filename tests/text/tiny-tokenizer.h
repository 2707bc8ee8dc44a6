/* SPDX-License-Identifier: MIT */
#pragma once
/* Vocabularies for tests. A test writes them key by key as a GGUF file in memory, so that it can also write bad ones.
 * Every function asserts its own success. */
#include "daemon/text/tokenizer/tokenizer.h"

struct tiny_tokenizer {
    struct buf body;
    uint64_t n; /* keys */
};

void tiny_str(struct tiny_tokenizer *m, const char *key, const char *v);
void tiny_u32(struct tiny_tokenizer *m, const char *key, uint32_t v);
void tiny_bool(struct tiny_tokenizer *m, const char *key, bool v);
void tiny_strs(struct tiny_tokenizer *m, const char *key, const char *const *v, size_t n);
void tiny_i32s(struct tiny_tokenizer *m, const char *key, const int32_t *v, size_t n);
void tiny_f32s(struct tiny_tokenizer *m, const char *key, const float *v, size_t n);
void tiny_u8s(struct tiny_tokenizer *m, const char *key, const char *v, size_t n);

/* Writes the file to @fd. */
void tiny_write_keys(const struct tiny_tokenizer *m, int fd);
/* tokenizer_new on the written file. Frees everything that @m holds. */
int tiny_tokenizer_new(struct tiny_tokenizer *m, struct tokenizer **out);

struct tiny_token {
    const char *text;
    int32_t kind;
    float score;
};
enum { TINY_NORMAL = 1, TINY_UNKNOWN, TINY_CONTROL, TINY_USER, TINY_UNUSED, TINY_BYTE };

/*
 * A whole vocabulary. SentencePiece: <unk> <s> </s>, the 256 byte tokens from id TINY_SPM_BYTES on, then @extra ("_" is
 * written as U+2581). BPE: the 256 bytes as ids 0 to 255, then the token of each of the NULL-terminated @merges ("l r",
 * "_" for a space), then @extra unchanged.
 */
#define TINY_SPM_BYTES 3
#define TINY_SPM_EXTRA 259
void tiny_spm(struct tiny_tokenizer *m, const struct tiny_token *extra, size_t n);
void tiny_bpe(struct tiny_tokenizer *m, const char *pre, const char *const *merges, const struct tiny_token *extra,
              size_t n);

/* The ids of @s. A byte is markup where @marks has a '#' at the same place; it is data if @marks is NULL or shorter.
 * The caller frees the result. */
int32_t *tiny_encode(const struct tokenizer *t, const char *s, const char *marks, size_t *n);
/* Checks that the ids are these. */
void tiny_expect(const struct tokenizer *t, const char *s, const char *marks, const int32_t *ids, size_t n);
#define TINY_EXPECT(t, s, marks, ...)                                                                                  \
    tiny_expect(t, s, marks, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Random valid UTF-8 of at most @max bytes, with many spaces, letters, digits and line ends. */
void tiny_random_text(uint64_t *seed, size_t max, struct buf *out);
uint32_t tiny_random(uint64_t *seed);

/* Encodes and detokenizes. Checks that the ends are in order and that the text comes back unchanged. */
void tiny_round_trip(const struct tokenizer *t, const char *s, size_t len);
