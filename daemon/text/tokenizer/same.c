/* SPDX-License-Identifier: MIT */
/* The comparison of two vocabularies, for models that exchange ids. */
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/error.h"
#include <string.h>

/* Token @id as a message shows it. */
static void show(char out[48], const struct tokenizer *t, int32_t id)
{
    struct gguf_str s = {0};
    s.data = tokenizer_piece(t, id, &s.len);
    gguf_text(out, 48, s);
}

static bool same_token(const struct tokenizer *a, const struct tokenizer *b, int32_t id)
{
    size_t n, m;
    const char *x = tokenizer_piece(a, id, &n), *y = tokenizer_piece(b, id, &m);
    return n == m && memcmp(x, y, n) == 0 && tokenizer_is_control(a, id) == tokenizer_is_control(b, id);
}

static int refuse_token(const struct tokenizer *a, const struct tokenizer *b, int32_t id)
{
    static const char *const kinds[] = {"text", "special"};
    char x[48], y[48];
    show(x, a, id);
    show(y, b, id);
    return error_say(-EINVAL, "token %d is '%s' (%s), but '%s' (%s) in the model", (int)id, y,
                     kinds[tokenizer_is_control(b, id)], x, kinds[tokenizer_is_control(a, id)]);
}

/* The tokens of @t from @from on are none that a text can have. */
static int check_rest(const struct tokenizer *t, uint32_t from, const char *has, const char *lacks)
{
    char x[48];
    for (uint32_t id = from; id < t->n; id++) {
        if (t->kinds[id] == TOKEN_UNUSED) continue;
        show(x, t, (int32_t)id);
        return error_say(-EINVAL, "%s has %u tokens, %s only %u; token %u is '%s'", has, t->n, lacks, from, id, x);
    }
    return 0;
}

static int check_special(const char *name, int32_t a, int32_t b)
{
    return a == b ? 0 : error_say(-EINVAL, "the %s token is %d, but %d in the model", name, (int)b, (int)a);
}

int tokenizer_same(const struct tokenizer *a, const struct tokenizer *b)
{
    static const char *const models[] = {
        [TOKENIZER_SPM] = "SentencePiece", [TOKENIZER_BPE] = "BPE",   [TOKENIZER_WPM] = "WordPiece",
        [TOKENIZER_UGM] = "unigram",       [TOKENIZER_RWKV] = "RWKV", [TOKENIZER_PLAMO2] = "PLaMo 2"};
    uint32_t n = a->n < b->n ? a->n : b->n;
    if (a->model != b->model)
        return error_say(-EINVAL, "the tokenizer is %s, but %s in the model", models[b->model], models[a->model]);
    for (uint32_t id = 0; id < n; id++)
        if (!same_token(a, b, (int32_t)id)) return refuse_token(a, b, (int32_t)id);
    int r = check_rest(a, n, "the model", "the other");
    if (r == 0) r = check_rest(b, n, "it", "the model");
    if (r == 0) r = check_special("first", a->bos, b->bos);
    return r == 0 ? check_special("last", a->eos, b->eos) : r;
}
