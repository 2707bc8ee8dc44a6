/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inside of a tokenizer, shared by the files that fill and use it: the vocabulary with its look-up tables, the
 * special tokens, and for BPE the merges and the pre-tokenizer. Plain data, immutable once tokenizer_new returned.
 */
#include "daemon/text/tokenizer/pretokenize.h"
#include "daemon/text/tokenizer/tokenizer.h"

enum token_kind { /* tokenizer.ggml.token_type's numbers */
                  TOKEN_UNDEFINED,
                  TOKEN_NORMAL,
                  TOKEN_UNKNOWN,
                  TOKEN_CONTROL,
                  TOKEN_USER,
                  TOKEN_UNUSED,
                  TOKEN_BYTE,
                  TOKEN_KINDS
};

enum { /* flags */
       TOKEN_EOG = 1,
       TOKEN_RSTRIP = 2, /* white space behind it is swallowed */
       TOKEN_PLAIN = 4,  /* BPE: a normal token not written in the byte-level alphabet */
};

/* One string a token: string i is data[off[i] .. off[i + 1]). */
struct strings {
    char *data;
    uint32_t *off; /* [n + 1] */
};

/* Strings -> token id, open addressing. A slot's id is stored plus 1, so that zeroed memory is empty. */
struct text_table {
    struct text_slot {
        uint32_t tag; /* upper half of the hash */
        uint32_t id1;
    } * slots;
    size_t mask;
    uint64_t seed;
};

/* (left, right) -> merge; same scheme. */
struct merge_table {
    struct merge_slot {
        int32_t left, right;
        uint32_t rank1; /* lower merges first */
        int32_t id;     /* what the two become */
    } * slots;
    size_t mask;
    uint64_t seed;
};

/* The longest special token, in bytes: a longer one is ordinary text. */
#define SPECIAL_BYTES_MAX 256

/* Tokens that are found in the text before anything else, in the order they are looked for (longest first). */
struct specials {
    int32_t *ids;        /* [n] */
    uint32_t *by_text;   /* [n] indices into ids, in byte order of their texts */
    uint32_t first[257]; /* by_text[first[c] .. first[c + 1]) begin with byte c */
    size_t n;
};

struct tokenizer {
    enum { TOKENIZER_SPM, TOKENIZER_BPE } model;
    uint32_t n;
    struct strings keys;   /* what text is compared with: U+2581 for a space where spaced, else the pieces themselves */
    struct strings pieces; /* what a token stands for */
    uint8_t *kinds;        /* [n] enum token_kind */
    uint8_t *flags;        /* [n] */
    uint32_t *order;       /* [n] SPM: scores as integers, best first (lowest); UINT32_MAX: not mergeable */
    uint32_t key_max;      /* longest key, bytes */
    int32_t bytes[256];    /* the token of a single byte, or -1 */
    int32_t bos, eos, unk; /* or -1 */
    struct tokenizer_fim fim; /* -1: not there */
    bool add_bos;
    bool spaced;       /* U+2581 is written for a space: SPM, and BPE that is not byte-level */
    bool space_prefix; /* SPM */
    bool cut_at_space; /* SPM: no token has a space behind something else, so that words can be merged one by one */
    struct text_table table;
    struct merge_table merges;
    struct specials specials;
    struct pretokenizer *pre; /* BPE */
};

static inline const char *strings_at(const struct strings *s, uint32_t i, size_t *len)
{
    *len = s->off[i + 1] - s->off[i];
    return s->data + s->off[i];
}

/* Whether merging may make it: text never becomes a control token, not even where the pieces would add up to one. */
static inline bool token_mergeable(const struct tokenizer *t, int32_t id)
{
    uint8_t kind = t->kinds[id];

    return kind != TOKEN_CONTROL && kind != TOKEN_UNKNOWN && kind != TOKEN_BYTE;
}

/* lookup.c */
int text_table_init(struct text_table *t, size_t n);
/* Adds keys[id]; returns the id that has the same text already, or -1. */
int32_t text_table_add(struct text_table *t, const struct strings *keys, int32_t id);
int32_t text_table_find(const struct text_table *t, const struct strings *keys, const char *s, size_t len); /* or -1 */
/* The same in two steps: the first asks for the memory that the second reads. */
uint64_t text_table_hash(const struct text_table *t, const char *s, size_t len);
int32_t text_table_find_hash(const struct text_table *t, const struct strings *keys, const char *s, size_t len,
                             uint64_t hash);
int merge_table_init(struct merge_table *m, size_t n);
void merge_table_add(struct merge_table *m, int32_t left, int32_t right, uint32_t rank,
                     int32_t id); /* the first one stays */
void merge_table_prefetch(const struct merge_table *m, int32_t left, int32_t right);
const struct merge_slot *merge_table_find(const struct merge_table *m, int32_t left, int32_t right); /* or NULL */

/* bytes.c: the byte-level alphabet. Length written (at most @len), or -1 when @s is not written in it. */
ptrdiff_t bytes_decode(char *out, const char *s, size_t len);

/* The three steps of making a tokenizer; errors as tokenizer_new. First vocab.c: texts, kinds and the table of texts.
 */
int vocab_read(struct tokenizer *t, const struct gguf *g);
/* special.c: the ids the file names, ends of generation by key and by well-known text, then the list of specials. */
int special_init(struct tokenizer *t, const struct gguf *g);
/* spm.c: scores, byte tokens. bpe.c: before all that the pre-tokenizer, named by @pre or by the file; byte tokens,
 * merges. */
int spm_init(struct tokenizer *t, const struct gguf *g);
void spm_bytes(struct tokenizer *t);
int bpe_pre(struct tokenizer *t, const struct gguf *g, const char *pre);
int bpe_init(struct tokenizer *t, const struct gguf *g);
/* vocab.c: the token with this text, which must be mergeable, or -1. */
int32_t vocab_find(const struct tokenizer *t, const char *s, size_t len);

/* A part of the text: a special token, or text that is still to be tokenized. */
struct fragment {
    uint32_t begin, end;
    int32_t id;    /* -1: text */
    uint32_t next; /* index, or FRAGMENT_END */
};
#define FRAGMENT_END UINT32_MAX

/* fragment.c. Splits text->s from @from on; a linked list that begins at index 0. The caller frees *out, also on error.
 * -E2BIG where the special tokens would take too long to find. */
int special_split(const struct tokenizer *t, const struct text *text, uint32_t from, struct fragment **out);

/* merge.c, spm.c, bpe.c: one run of text that has no special tokens in it. */
struct merger;
int spm_encode(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end, bool prefix,
               struct tokens *out);
/* Of BPE that is not byte-level, one piece. */
int spm_piece(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end,
              struct tokens *out);
int bpe_encode(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end,
               struct tokens *out);
