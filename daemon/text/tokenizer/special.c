/* SPDX-License-Identifier: MIT */
/*
 * Special tokens, and the tokens that end an answer. Texts and rules follow llama.cpp, whose conversion writes most
 * files; GGUF itself does not define them.
 */
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* These are control tokens and end an answer, whatever type the file gives them. */
static const char *const ends[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "▁<EOT>",
    "[EOT]",
    "[EOS]",
    "<end_of_utterance>",
    "<eos>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
};

/* Fill-in-the-middle tokens. The key of the file names the token; an older key counts if the newer one is missing.
 * Without a key it is the first of these texts that the vocabulary has, and it becomes a control token. */
enum { FIM_PRE, FIM_SUF, FIM_MID, FIM_KINDS = 6 };

static const struct fim {
    const char *key, *old_key;
    bool end; /* also ends an answer */
    const char *texts[9];
} fims[FIM_KINDS] = {
    [FIM_PRE] = {"tokenizer.ggml.fim_pre_token_id",
                 "tokenizer.ggml.prefix_token_id",
                 false,
                 {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
                  "<|code_prefix|>", "<|prefix|>"}},
    [FIM_SUF] = {"tokenizer.ggml.fim_suf_token_id",
                 "tokenizer.ggml.suffix_token_id",
                 false,
                 {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
                  "<|code_suffix|>", "<|suffix|>"}},
    [FIM_MID] = {"tokenizer.ggml.fim_mid_token_id",
                 "tokenizer.ggml.middle_token_id",
                 false,
                 {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
                  "<|code_middle|>", "<|middle|>"}},
    {"tokenizer.ggml.fim_pad_token_id", NULL, true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"tokenizer.ggml.fim_rep_token_id",
     NULL,
     true,
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"tokenizer.ggml.fim_sep_token_id", NULL, true, {"<|file_sep|>"}},
};

static int32_t find(const struct tokenizer *t, const char *text)
{
    return text_table_find(&t->table, &t->keys, text, strlen(text));
}

/* Reads a key that names a token. *id is unchanged without the key. Older converters wrote all ones for "none". */
static int read_id(const struct tokenizer *t, const struct gguf *g, const char *key, int32_t *id)
{
    uint32_t v;
    int r = gguf_get_u32(g, key, &v);
    if (r) return r < 0 ? r : 0;
    if (v != UINT32_MAX && v >= t->n)
        return error_say(-EINVAL, "%s is %u, but the vocabulary has %u tokens", key, v, t->n);
    *id = v == UINT32_MAX ? -1 : (int32_t)v;
    return 0;
}

/* Mistral's vocabularies for code have no key and texts of their own. They have only a suffix and a prefix. */
static void classify_mistral(struct tokenizer *t)
{
    int32_t pre = find(t, "[PREFIX]"), suf = find(t, "[SUFFIX]");
    if (pre < 0 || suf < 0) return;
    t->kinds[pre] = t->kinds[suf] = TOKEN_CONTROL;
    t->fim = (struct tokenizer_fim){pre, suf, -1};
}

static int classify_fim(struct tokenizer *t, const struct gguf *g)
{
    int32_t ids[FIM_KINDS];
    for (size_t i = 0; i < FIM_KINDS; i++) {
        ids[i] = -1;
        int r = read_id(t, g, fims[i].key, &ids[i]);
        if (r == 0 && ids[i] < 0 && fims[i].old_key) r = read_id(t, g, fims[i].old_key, &ids[i]);
        if (r < 0) return r;
        for (size_t k = 0; ids[i] < 0 && fims[i].texts[k]; k++) {
            ids[i] = find(t, fims[i].texts[k]);
            if (ids[i] >= 0) t->kinds[ids[i]] = TOKEN_CONTROL;
        }
        if (ids[i] >= 0 && fims[i].end) t->flags[ids[i]] |= TOKEN_EOG;
    }
    t->fim = (struct tokenizer_fim){ids[FIM_PRE], ids[FIM_SUF], ids[FIM_MID]};
    if (t->fim.pre < 0 || t->fim.suf < 0 || t->fim.mid < 0) {
        t->fim.pre = -1;
        classify_mistral(t);
    }
    return 0;
}

/* Where <|return|> or <|flush|> ends an answer and <|call|> or <|calls|> ends a tool call, <|end|> ends only a part of
 * the answer (gpt-oss, Solar). */
static bool end_of_part(const struct tokenizer *t)
{
    return (find(t, "<|call|>") >= 0 || find(t, "<|calls|>") >= 0) &&
           (find(t, "<|return|>") >= 0 || find(t, "<|flush|>") >= 0);
}

static void classify_ends(struct tokenizer *t)
{
    bool part = end_of_part(t);
    /* Gemma 4 has this token, and its </s> has another meaning. */
    bool gemma4 = find(t, "<|tool_response>") >= 0;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        int32_t id = find(t, ends[i]);
        if (id < 0 || (gemma4 && strcmp(ends[i], "</s>") == 0)) continue;
        t->kinds[id] = TOKEN_CONTROL;
        if (!part || strcmp(ends[i], "<|end|>") != 0) t->flags[id] |= TOKEN_EOG;
    }
}

/* The id where the file has no key, by enum of t->model: those of SentencePiece, BERT, T5 and PLaMo 2. */
static int32_t default_id(const struct tokenizer *t, const int32_t ids[6])
{
    int32_t id = ids[t->model];
    return id < (int32_t)t->n ? id : -1;
}

static int classify(struct tokenizer *t, const struct gguf *g)
{
    int32_t eot = -1, eom = -1;
    t->unk = default_id(t, (const int32_t[]){0, -1, 100, 2, -1, 0});
    t->bos = default_id(t, (const int32_t[]){1, -1, 101, -1, -1, 1});
    t->eos = default_id(t, (const int32_t[]){2, -1, -1, 1, -1, 2});
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {{"tokenizer.ggml.bos_token_id", &t->bos},
               {"tokenizer.ggml.eos_token_id", &t->eos},
               {"tokenizer.ggml.eot_token_id", &eot},
               {"tokenizer.ggml.eom_token_id", &eom},
               {"tokenizer.ggml.unknown_token_id", &t->unk}};
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
        int r = read_id(t, g, ids[i].key, ids[i].id);
        if (r < 0) return r;
    }
    if (t->eos >= 0) t->flags[t->eos] |= TOKEN_EOG;
    if (eot >= 0) t->flags[eot] |= TOKEN_EOG;
    if (eom >= 0) t->flags[eom] |= TOKEN_EOG;

    classify_ends(t);
    return classify_fim(t, g);
}

/* Phi-3 removes white space behind its special tokens, except behind these. Its files do not say so. */
static void strip_by_name(struct tokenizer *t, const struct gguf *g)
{
    struct gguf_str name;
    if (gguf_get_str(g, "general.name", &name) != 0) return;
    char lower[128];
    size_t len = name.len < sizeof(lower) - 1 ? name.len : sizeof(lower) - 1;
    for (size_t i = 0; i < len; i++) lower[i] = (char)tolower((unsigned char)name.data[i]);
    lower[len] = 0;
    if (!strstr(lower, "phi-3") && !strstr(lower, "phi3")) return;
    for (size_t i = 0; i < t->specials.n; i++) t->flags[t->specials.ids[i]] |= TOKEN_RSTRIP;
    static const char *const keep[] = {"<unk>", "<s>", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof(keep) / sizeof(*keep); i++) {
        int32_t id = find(t, keep[i]);
        if (id >= 0) t->flags[id] &= (uint8_t)~TOKEN_RSTRIP;
    }
}

static bool is_special(const struct tokenizer *t, uint32_t id)
{
    size_t len;
    const char *s = strings_at(&t->keys, id, &len);
    /* A token that is not UTF-8 could match only in the middle of a character. No model has a token near the limit. */
    return (t->kinds[id] == TOKEN_CONTROL || t->kinds[id] == TOKEN_USER || t->kinds[id] == TOKEN_UNKNOWN) && len &&
           len <= SPECIAL_BYTES_MAX && utf8_check(s, len) == len;
}

static int longest_first(const void *a, const void *b, void *ctx)
{
    const struct tokenizer *t = ctx;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    size_t nx, ny;
    strings_at(&t->keys, (uint32_t)x, &nx);
    strings_at(&t->keys, (uint32_t)y, &ny);
    return nx != ny ? (nx > ny ? -1 : 1) : (x > y) - (x < y);
}

static int bytewise(const void *a, const void *b, void *ctx)
{
    const struct tokenizer *t = ctx;
    size_t nx, ny;
    const char *x = strings_at(&t->keys, (uint32_t)t->specials.ids[*(const uint32_t *)a], &nx);
    const char *y = strings_at(&t->keys, (uint32_t)t->specials.ids[*(const uint32_t *)b], &ny);
    int r = memcmp(x, y, nx < ny ? nx : ny);
    return r ? r : (nx > ny) - (nx < ny);
}

int special_init(struct tokenizer *t, const struct gguf *g)
{
    struct specials *sp = &t->specials;
    int r = classify(t, g);
    if (r < 0) return r;

    for (uint32_t i = 0; i < t->n; i++) sp->n += is_special(t, i);
    sp->ids = reallocarray(NULL, sp->n + 1, sizeof(*sp->ids));
    sp->by_text = reallocarray(NULL, sp->n + 1, sizeof(*sp->by_text));
    if (!sp->ids || !sp->by_text) return error_origin(-ENOMEM);
    sp->n = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (is_special(t, i)) sp->ids[sp->n++] = (int32_t)i;
    qsort_r(sp->ids, sp->n, sizeof(*sp->ids), longest_first, t);
    for (uint32_t i = 0; i < sp->n; i++) sp->by_text[i] = i;
    qsort_r(sp->by_text, sp->n, sizeof(*sp->by_text), bytewise, t);

    uint32_t k = 0;
    for (unsigned c = 0; c < 256; c++) {
        size_t len;
        sp->first[c] = k;
        while (k < sp->n && (unsigned char)*strings_at(&t->keys, (uint32_t)sp->ids[sp->by_text[k]], &len) == c) k++;
    }
    sp->first[256] = k;
    assert(k == sp->n);
    strip_by_name(t, g);
    return 0;
}
