/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inside of a tokenizer, for the files that fill and use it: the vocabulary with its lookup tables, the special
 * tokens, for BPE the merges and the pre-tokenizer, for the kinds that do not merge the trie of tokens. Plain data,
 * immutable once tokenizer_new has returned.
 */
#include "daemon/text/tokenizer/charsmap.h"
#include "daemon/text/tokenizer/pretokenize.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include "daemon/text/tokenizer/trie.h"

/* The numbers of tokenizer.ggml.token_type. */
enum token_kind {
    TOKEN_UNDEFINED,
    TOKEN_NORMAL,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER,
    TOKEN_UNUSED,
    TOKEN_BYTE,
    TOKEN_KINDS
};

/* Flags. */
enum {
    TOKEN_EOG = 1,
    TOKEN_RSTRIP = 2, /* white space behind it is removed */
    TOKEN_PLAIN = 4,  /* BPE: a normal token not written in the byte-level alphabet */
};

/* One string for each token: string i is data[off[i] .. off[i + 1]). */
struct strings {
    char *data;
    uint32_t *off; /* [n + 1] */
};

/* String -> token id, open addressing. A slot stores its id plus 1, so that zeroed memory is empty. */
struct text_table {
    struct text_slot {
        uint32_t tag; /* upper half of the hash */
        uint32_t id1;
    } * slots;
    size_t mask;
    uint64_t seed;
};

/* (left, right) -> merge, in the same way. */
struct merge_table {
    struct merge_slot {
        int32_t left, right;
        uint32_t rank1; /* lower merges first */
        int32_t id;     /* token of the merged text */
    } * slots;
    size_t mask;
    uint64_t seed;
};

/* The longest special token, in bytes. A longer one is ordinary text. */
#define SPECIAL_BYTES_MAX 256

/* Tokens that are found in the text before merging, in the order of the search (longest first). */
struct specials {
    int32_t *ids;        /* [n] */
    uint32_t *by_text;   /* [n] indices into ids, in byte order of their texts */
    uint32_t first[257]; /* by_text[first[c] .. first[c + 1]) begin with byte c */
    size_t n;
};

enum tokenizer_model {
    TOKENIZER_SPM,
    TOKENIZER_BPE,
    TOKENIZER_WPM,
    TOKENIZER_UGM,
    TOKENIZER_RWKV,
    TOKENIZER_PLAMO2,
};

/* How the file writes the texts of tokens. */
enum spelling {
    SPELLING_SPACED,   /* U+2581 for a space: all kinds of SentencePiece, WordPiece, BPE that is not byte-level */
    SPELLING_ALPHABET, /* GPT-2's byte-level alphabet: BPE */
    SPELLING_ESCAPED,  /* bytes as in a bytes literal of Python: RWKV */
    SPELLING_PLAIN,    /* unchanged: PLaMo 2 */
};

/* What happens to a text before the search for tokens. */
struct normalization {
    struct charsmap map;           /* UGM */
    bool merge_spaces;             /* UGM: one space in front of each word, none at the end */
    bool lowercase, strip_accents; /* WPM */
};

/* The tokens of WPM, UGM, RWKV and PLaMo 2, which do not merge. */
struct words {
    struct trie trie;
    double *scores; /* [n] UGM, PLaMo 2; NaN: never made */
    double unknown; /* UGM: of a character without a token */
};

struct tokenizer {
    enum tokenizer_model model;
    uint32_t n;
    struct strings keys;      /* texts to compare input with: spaced and plain ones as in the file, else the pieces */
    struct strings pieces;    /* texts that tokens become */
    uint8_t *kinds;           /* [n] enum token_kind */
    uint8_t *flags;           /* [n] */
    uint32_t *order;          /* [n] SPM: scores as integers, best first (lowest); UINT32_MAX: not mergeable */
    uint32_t key_max;         /* longest key, bytes */
    int32_t bytes[256];       /* the token of a single byte, or -1 */
    int32_t bos, eos, unk;    /* or -1 */
    int32_t end;              /* behind a text that is to be embedded, or -1 */
    struct tokenizer_fim fim; /* -1: none */
    bool add_bos;
    enum spelling spelling;
    bool space_prefix; /* SPM, UGM */
    bool cut_at_space; /* SPM: no token has a space behind another character, so words are merged one by one */
    struct text_table table;
    struct merge_table merges;
    struct specials specials;
    struct pretokenizer *pre; /* BPE */
    struct words words;
    struct normalization normalization;
};

static inline const char *strings_at(const struct strings *s, uint32_t i, size_t *len)
{
    *len = s->off[i + 1] - s->off[i];
    return s->data + s->off[i];
}

/* True if merging may make the token. Text never becomes a control token, even where its pieces would add up to one. */
static inline bool token_mergeable(const struct tokenizer *t, int32_t id)
{
    uint8_t kind = t->kinds[id];

    return kind != TOKEN_CONTROL && kind != TOKEN_UNKNOWN && kind != TOKEN_BYTE;
}

/* lookup.c */
int text_table_init(struct text_table *t, size_t n);
/* Adds keys[id]. Returns the id that already has the same text, or -1. */
int32_t text_table_add(struct text_table *t, const struct strings *keys, int32_t id);
int32_t text_table_find(const struct text_table *t, const struct strings *keys, const char *s, size_t len); /* or -1 */
/* The same in two steps. The first prefetches the memory that the second reads. */
uint64_t text_table_hash(const struct text_table *t, const char *s, size_t len);
int32_t text_table_find_hash(const struct text_table *t, const struct strings *keys, const char *s, size_t len,
                             uint64_t hash);
int merge_table_init(struct merge_table *m, size_t n);
void merge_table_add(struct merge_table *m, int32_t left, int32_t right, uint32_t rank,
                     int32_t id); /* the first of equal pairs stays */
void merge_table_prefetch(const struct merge_table *m, int32_t left, int32_t right);
const struct merge_slot *merge_table_find(const struct merge_table *m, int32_t left, int32_t right); /* or NULL */

/* bytes.c: the byte-level alphabet. Returns the length written (at most @len), or -1 if @s is not written in it. */
ptrdiff_t bytes_decode(char *out, const char *s, size_t len);

/* The three steps of making a tokenizer, with the errors of tokenizer_new. First, vocab.c: texts, kinds and the table
 * of texts. */
int vocab_read(struct tokenizer *t, const struct gguf *g);
/* Second, special.c: the ids that the file names, the ends of generation by key and by well-known text, the list of
 * specials. */
int special_init(struct tokenizer *t, const struct gguf *g);
/* Third, the file of the kind: scores, byte tokens, merges, the trie. bpe_pre comes before the first step: it makes the
 * pre-tokenizer that @pre or the file names. */
int spm_init(struct tokenizer *t, const struct gguf *g);
void spm_bytes(struct tokenizer *t);
int bpe_pre(struct tokenizer *t, const struct gguf *g, const char *pre);
int bpe_init(struct tokenizer *t, const struct gguf *g);
int wpm_init(struct tokenizer *t, const struct gguf *g);
int ugm_init(struct tokenizer *t, const struct gguf *g);
int rwkv_init(struct tokenizer *t);
int plamo2_init(struct tokenizer *t, const struct gguf *g);
/* scores.c: the array of scores, one for each token. -EINVAL: the error message says that a tokenizer of kind @model
 * needs it. */
int scores_find(const struct tokenizer *t, const struct gguf *g, const char *model, const struct gguf_kv **out);
float scores_at(const struct gguf_kv *kv, uint32_t i);
/* words.c: fills the trie with the tokens that have a text and that @take is true for. */
int words_init(struct tokenizer *t, bool (*take)(const struct tokenizer *t, uint32_t id));
/* vocab.c: fills bytes with the tokens <0x00> to <0xFF> that are marked as bytes: all 256 or none. */
void byte_tokens(struct tokenizer *t);
/* vocab.c: the token with this text if it is mergeable, or -1. */
int32_t vocab_find(const struct tokenizer *t, const char *s, size_t len);

/* A part of the text: a special token, or text to be tokenized. */
struct fragment {
    uint32_t begin, end;
    int32_t id;    /* -1: text */
    uint32_t next; /* index, or FRAGMENT_END */
};
#define FRAGMENT_END UINT32_MAX

/* fragment.c. Splits text->s from @from on into a linked list that begins at index 0. The caller frees *out, also on
 * error. -E2BIG: the special tokens would take too long to find. */
int special_split(const struct tokenizer *t, const struct text *text, uint32_t from, struct fragment **out);

/* One run of text without special tokens, in the file of each kind. @first, @prefix: nothing or a special token is in
 * front of it. */
struct merger;
int spm_encode(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end, bool prefix,
               struct tokens *out);
/* One piece, for BPE that is not byte-level. */
int spm_piece(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end,
              struct tokens *out);
int bpe_encode(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end,
               struct tokens *out);
int wpm_encode(const struct tokenizer *t, const char *s, uint32_t begin, uint32_t end, bool first, struct tokens *out);
int ugm_encode(const struct tokenizer *t, const char *s, uint32_t begin, uint32_t end, bool first, struct tokens *out);
int rwkv_encode(const struct tokenizer *t, const char *s, uint32_t begin, uint32_t end, struct tokens *out);
int plamo2_encode(const struct tokenizer *t, const char *s, uint32_t begin, uint32_t end, bool first,
                  struct tokens *out);
