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

/* By tokenizer.ggml.model. */
static const struct kind {
    const char *name;
    enum tokenizer_model model;
    enum spelling spelling;
} kinds[] = {{"llama", TOKENIZER_SPM, SPELLING_SPACED},    {"gpt2", TOKENIZER_BPE, SPELLING_ALPHABET},
             {"gemma4", TOKENIZER_BPE, SPELLING_ALPHABET}, {"bert", TOKENIZER_WPM, SPELLING_SPACED},
             {"t5", TOKENIZER_UGM, SPELLING_SPACED},       {"rwkv", TOKENIZER_RWKV, SPELLING_ESCAPED},
             {"plamo2", TOKENIZER_PLAMO2, SPELLING_PLAIN}};

static const struct kind *find_kind(struct gguf_str name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strlen(kinds[i].name) == name.len && memcmp(kinds[i].name, name.data, name.len) == 0) return &kinds[i];
    return NULL;
}

static int read_model(struct tokenizer *t, const struct gguf *g)
{
    struct gguf_str s;
    int r = gguf_get_str(g, "tokenizer.ggml.model", &s);
    if (r < 0) return r;
    if (r > 0) return error_say(-EINVAL, "the file has no tokenizer (no tokenizer.ggml.model)");
    const struct kind *kind = find_kind(s);
    if (!kind)
        return error_say(-EOPNOTSUPP,
                         "tokenizer \"%.*s\" is not supported (supported: llama, gpt2, gemma4, bert, t5, rwkv, plamo2)",
                         (int)(s.len < 64 ? s.len : 64), s.data);
    t->model = kind->model;
    t->spelling = kind->spelling;
    if (t->model != TOKENIZER_BPE) return 0;
    r = bpe_pre(t, g, strcmp(kind->name, "gemma4") == 0 ? kind->name : NULL);
    if (r == 0 && pretokenizer_plain(t->pre)) t->spelling = SPELLING_SPACED;
    return r;
}

static int read_add_bos(struct tokenizer *t, const struct gguf *g)
{
    static const char key[] = "tokenizer.ggml.add_bos_token";
    bool add = t->model == TOKENIZER_SPM || t->model == TOKENIZER_WPM || (t->pre && pretokenizer_add_bos(t->pre));
    int r = gguf_get_bool(g, key, &add);
    if (r < 0) return r;
    /* Gemma 4 needs a BOS, but its files say false. */
    if (t->pre && pretokenizer_plain(t->pre) && pretokenizer_add_bos(t->pre)) add = true;
    if (r == 0 && add && t->bos < 0)
        return error_say(-EINVAL, "%s is true, but the file has no tokenizer.ggml.bos_token_id", key);
    t->add_bos = add && t->bos >= 0;
    return 0;
}

/* The token behind a text that is to be embedded: BERT's [SEP], else the end of the text where the file wants it. */
static int read_end(struct tokenizer *t, const struct gguf *g)
{
    static const char sep_key[] = "tokenizer.ggml.seperator_token_id"; /* so spelled */
    bool wpm = t->model == TOKENIZER_WPM, add = t->model == TOKENIZER_UGM || wpm;
    uint32_t id = wpm ? 102 : (uint32_t)t->eos;
    int r = gguf_get_bool(g, wpm ? "tokenizer.ggml.add_sep_token" : "tokenizer.ggml.add_eos_token", &add);
    if (r >= 0 && wpm) r = gguf_get_u32(g, sep_key, &id);
    if (r < 0) return r;
    if (r == 0 && wpm && id >= t->n)
        return error_say(-EINVAL, "%s is %u, but the vocabulary has %u tokens", sep_key, id, t->n);
    t->end = add && id < t->n ? (int32_t)id : -1;
    return 0;
}

static int init_kind(struct tokenizer *t, const struct gguf *g)
{
    switch (t->model) {
    case TOKENIZER_SPM:
        return spm_init(t, g);
    case TOKENIZER_BPE:
        return bpe_init(t, g);
    case TOKENIZER_WPM:
        return wpm_init(t, g);
    case TOKENIZER_UGM:
        return ugm_init(t, g);
    case TOKENIZER_RWKV:
        return rwkv_init(t);
    default:
        return plamo2_init(t, g);
    }
}

static int read_all(struct tokenizer *t, const struct gguf *g)
{
    int r = read_model(t, g);
    if (r < 0) return r;
    r = vocab_read(t, g);
    if (r < 0) return r;
    r = special_init(t, g);
    if (r < 0) return r;
    r = init_kind(t, g);
    if (r < 0) return r;
    r = read_add_bos(t, g);
    return r < 0 ? r : read_end(t, g);
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
    trie_fini(&t->words.trie);
    free(t->words.scores);
    charsmap_fini(&t->normalization.map);
    free(t);
    return NULL;
}

/* @first: nothing or a special token is in front of [@begin, @end). */
static int encode_run(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end,
                      bool first, struct tokens *out)
{
    switch (t->model) {
    case TOKENIZER_SPM:
        return spm_encode(t, m, s, begin, end, t->space_prefix && first, out);
    case TOKENIZER_BPE:
        return bpe_encode(t, m, s, begin, end, out);
    case TOKENIZER_WPM:
        return wpm_encode(t, s, begin, end, first, out);
    case TOKENIZER_UGM:
        return ugm_encode(t, s, begin, end, first, out);
    case TOKENIZER_RWKV:
        return rwkv_encode(t, s, begin, end, out);
    default:
        return plamo2_encode(t, s, begin, end, first, out);
    }
}

/* Characters at the end of a run that make no token belong to the last one, and to all that end with it. The tokens
 * from index @from on are those of the run. */
static void end_at(struct tokens *out, size_t from, uint32_t end)
{
    uint32_t last = out->ends[out->n - 1];
    for (size_t i = out->n; i > from && out->ends[i - 1] == last; i--) out->ends[i - 1] = end;
}

static int encode_fragments(const struct tokenizer *t, const struct text *text, const struct fragment *list, bool first,
                            struct tokens *out)
{
    _cleanup_(merger_fini) struct merger m = {0};
    int r = 0;
    for (uint32_t i = 0; i != FRAGMENT_END && r >= 0; i = list[i].next) {
        const struct fragment *f = &list[i];
        size_t n = out->n;
        r = f->id >= 0 ? tokens_push(out, f->id, f->end)
                       : encode_run(t, &m, text->s.data, f->begin, f->end, first, out);
        if (r >= 0 && out->n > n) end_at(out, n, f->end);
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

bool tokenizer_was_special(const struct tokenizer *t, int32_t id, const char *s, size_t len)
{
    size_t n;
    if (!in_range(t, id)) return false;
    if (t->kinds[id] == TOKEN_CONTROL && id != t->unk) return true;
    if (t->kinds[id] != TOKEN_USER && !tokenizer_is_control(t, id)) return false;
    const char *name = strings_at(&t->keys, (uint32_t)id, &n);
    return n && memmem(s, len, name, n);
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

int32_t tokenizer_end(const struct tokenizer *t)
{
    return t->end;
}

bool tokenizer_add_bos(const struct tokenizer *t)
{
    return t->add_bos;
}

const struct tokenizer_fim *tokenizer_fim(const struct tokenizer *t)
{
    return t->fim.pre >= 0 ? &t->fim : NULL;
}
