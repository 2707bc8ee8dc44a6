/* SPDX-License-Identifier: MIT */
#pragma once
/* Vocabularies for tests. A test writes them key by key as a GGUF file in memory, so that it can also write bad ones.
 * Every function asserts its own success. */
#include "daemon/text/tokenizer/tokenizer.h"

struct mini {
    struct buf body;
    uint64_t n; /* keys */
};

void mini_str(struct mini *m, const char *key, const char *v);
void mini_u32(struct mini *m, const char *key, uint32_t v);
void mini_bool(struct mini *m, const char *key, bool v);
void mini_strs(struct mini *m, const char *key, const char *const *v, size_t n);
void mini_i32s(struct mini *m, const char *key, const int32_t *v, size_t n);
void mini_f32s(struct mini *m, const char *key, const float *v, size_t n);

/* Writes the file to @fd. */
void mini_write(const struct mini *m, int fd);
/* tokenizer_new on the written file. Frees everything that @m holds. */
int mini_tokenizer(struct mini *m, struct tokenizer **out);

struct mini_token {
    const char *text;
    int32_t kind;
    float score;
};
enum { MINI_NORMAL = 1, MINI_UNKNOWN, MINI_CONTROL, MINI_USER, MINI_UNUSED, MINI_BYTE };

/*
 * A whole vocabulary. SentencePiece: <unk> <s> </s>, the 256 byte tokens from id MINI_SPM_BYTES on, then @extra ("_" is
 * written as U+2581). BPE: the 256 bytes as ids 0 to 255, then the token of each of the NULL-terminated @merges ("l r",
 * "_" for a space), then @extra unchanged.
 */
#define MINI_SPM_BYTES 3
#define MINI_SPM_EXTRA 259
void mini_spm(struct mini *m, const struct mini_token *extra, size_t n);
void mini_bpe(struct mini *m, const char *pre, const char *const *merges, const struct mini_token *extra, size_t n);

/* The ids of @s. A byte is markup where @marks has a '#' at the same place; it is data if @marks is NULL or shorter.
 * The caller frees the result. */
int32_t *mini_encode(const struct tokenizer *t, const char *s, const char *marks, size_t *n);
/* Checks that the ids are these. */
void mini_expect(const struct tokenizer *t, const char *s, const char *marks, const int32_t *ids, size_t n);
#define MINI_EXPECT(t, s, marks, ...)                                                                                  \
    mini_expect(t, s, marks, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Random valid UTF-8 of at most @max bytes, with many spaces, letters, digits and line ends. */
void mini_random_text(uint64_t *seed, size_t max, struct buf *out);
uint32_t mini_random(uint64_t *seed);

/* Encodes and detokenizes. Checks that the ends are in order and that the text comes back unchanged. */
void mini_round_trip(const struct tokenizer *t, const char *s, size_t len);
