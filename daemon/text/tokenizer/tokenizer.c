/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer/tokenizer.h"
#include "daemon/text/tokenizer/merge.h"
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(struct tokenizer *, tokenizer_free)

static int read_model(struct tokenizer *t, const struct gguf *g)
{
    struct gguf_str s;
    int r = gguf_get_str(g, "tokenizer.ggml.model", &s);
    if (r < 0) return r;
    if (r > 0) return error_say(-EINVAL, "the file has no tokenizer (no tokenizer.ggml.model)");
    if (s.len == 5 && memcmp(s.data, "llama", 5) == 0) {
        t->model = TOKENIZER_SPM;
        t->spaced = true;
        return 0;
    }
    bool gemma4 = s.len == 6 && memcmp(s.data, "gemma4", 6) == 0;
    if (!gemma4 && (s.len != 4 || memcmp(s.data, "gpt2", 4) != 0))
        return error_say(-EOPNOTSUPP, "tokenizer \"%.*s\" is not supported (supported: llama, gpt2, gemma4)",
                         (int)(s.len < 64 ? s.len : 64), s.data);
    t->model = TOKENIZER_BPE;
    r = bpe_pre(t, g, gemma4 ? "gemma4" : NULL);
    if (r < 0) return r;
    t->spaced = pretokenizer_plain(t->pre);
    return 0;
}

static int read_add_bos(struct tokenizer *t, const struct gguf *g)
{
    static const char key[] = "tokenizer.ggml.add_bos_token";
    bool add = t->model == TOKENIZER_SPM || pretokenizer_add_bos(t->pre);
    int r = gguf_get_bool(g, key, &add);
    if (r < 0) return r;
    /* Gemma 4 needs a BOS, but its files say false. */
    if (t->pre && pretokenizer_plain(t->pre) && pretokenizer_add_bos(t->pre)) add = true;
    if (r == 0 && add && t->bos < 0)
        return error_say(-EINVAL, "%s is true, but the file has no tokenizer.ggml.bos_token_id", key);
    t->add_bos = add && t->bos >= 0;
    return 0;
}

static int read_all(struct tokenizer *t, const struct gguf *g)
{
    int r = read_model(t, g);
    if (r < 0) return r;
    r = vocab_read(t, g);
    if (r < 0) return r;
    r = special_init(t, g);
    if (r < 0) return r;
    r = t->model == TOKENIZER_SPM ? spm_init(t, g) : bpe_init(t, g);
    if (r < 0) return r;
    return read_add_bos(t, g);
}

int tokenizer_new(struct tokenizer **out, const struct gguf *g)
{
    _cleanup_(tokenizer_freep) struct tokenizer *t = calloc(1, sizeof(*t));
    if (!t) return error_origin(-ENOMEM);

    int r = read_all(t, g);
    if (r < 0) return error_in(r, "%s", gguf_path(g));
    *out = steal(t);
    return 0;
}

struct tokenizer *tokenizer_free(struct tokenizer *t)
{
    if (!t) return NULL;
    if (t->keys.data != t->pieces.data) {
        free(t->keys.data);
        free(t->keys.off);
    }
    free(t->pieces.data);
    free(t->pieces.off);
    free(t->kinds);
    free(t->flags);
    free(t->order);
    free(t->table.slots);
    free(t->merges.slots);
    free(t->specials.ids);
    free(t->specials.by_text);
    pretokenizer_free(t->pre);
    free(t);
    return NULL;
}

static int encode_fragments(const struct tokenizer *t, const struct text *text, const struct fragment *list, bool first,
                            struct tokens *out)
{
    _cleanup_(merger_fini) struct merger m = {0};
    int r = 0;
    for (uint32_t i = 0; i != FRAGMENT_END && r >= 0; i = list[i].next) {
        const struct fragment *f = &list[i];
        if (f->id >= 0)
            r = tokens_push(out, f->id, f->end);
        else if (t->model == TOKENIZER_SPM)
            r = spm_encode(t, &m, text->s.data, f->begin, f->end, t->space_prefix && first, out);
        else
            r = bpe_encode(t, &m, text->s.data, f->begin, f->end, out);
        first = f->id >= 0;
    }
    return r;
}

int tokenizer_encode(const struct tokenizer *t, const struct text *text, size_t from, bool first, struct tokens *out)
{
    size_t len = text->s.len, n = out->n;
    assert(from <= len);
    if (from == len) return 0;
    if (len > TOKENIZER_TEXT_MAX)
        return error_say(-E2BIG, "a text of %zu bytes is too long (at most %u)", len, TOKENIZER_TEXT_MAX);
    size_t valid = utf8_check(text->s.data + from, len - from);
    if (valid < len - from) return error_say(-EILSEQ, "not UTF-8: byte %zu", from + valid);

    _cleanup_(freep) struct fragment *list = NULL;
    int r = special_split(t, text, (uint32_t)from, &list);
    if (r >= 0) r = encode_fragments(t, text, list, first, out);
    if (r < 0) out->n = n;
    return r;
}

static bool in_range(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->n;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len)
{
    *len = 0;
    return in_range(t, id) ? strings_at(&t->pieces, (uint32_t)id, len) : "";
}

size_t tokenizer_vocab(const struct tokenizer *t)
{
    return t->n;
}

bool tokenizer_is_control(const struct tokenizer *t, int32_t id)
{
    return in_range(t, id) && (t->kinds[id] == TOKEN_CONTROL || t->kinds[id] == TOKEN_UNKNOWN);
}

bool tokenizer_has_control(const struct tokenizer *t, const char *text)
{
    for (size_t i = 0; i < t->specials.n; i++) {
        size_t len;
        const char *piece = tokenizer_piece(t, t->specials.ids[i], &len);
        if (len == strlen(text) && memcmp(piece, text, len) == 0 && tokenizer_is_control(t, t->specials.ids[i]))
            return true;
    }
    return false;
}

bool tokenizer_is_eog(const struct tokenizer *t, int32_t id)
{
    return in_range(t, id) && (t->flags[id] & TOKEN_EOG);
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}

bool tokenizer_add_bos(const struct tokenizer *t)
{
    return t->add_bos;
}

const struct tokenizer_fim *tokenizer_fim(const struct tokenizer *t)
{
    return t->fim.pre >= 0 ? &t->fim : NULL;
}
