/* SPDX-License-Identifier: MIT */
/* BPE. The merges of the file apply inside each piece of the pre-tokenizer, in their listed order. The alphabet is
 * byte-level, except in the few vocabularies that are written as SentencePiece writes them. */
#include "daemon/text/tokenizer/merge.h"
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>
#include <string.h>

struct bpe {
    const struct tokenizer *t;
    struct merger *m;
    const char *s;
    struct tokens *out;
};

bool bpe_pair(const struct tokenizer *t, const char *text, const struct symbol *l, const struct symbol *r,
              uint32_t *order, int32_t *id)
{
    const struct merge_slot *slot = merge_table_find(&t->merges, l->id, r->id);
    if (!slot) return false;
    *order = slot->rank1;
    *id = slot->id;
    return true;
}

static int piece(void *ctx, uint32_t begin, uint32_t end)
{
    struct bpe *b = ctx;
    const struct tokenizer *t = b->t;
    if (t->spelling == SPELLING_SPACED) return spm_piece(t, b->m, b->s, begin, end, b->out);
    if (pretokenizer_ignores_merges(t->pre)) {
        int32_t id = vocab_find(t, b->s + begin, end - begin);
        if (id >= 0) return tokens_push(b->out, id, end);
    }
    merger_reset(b->m);
    for (uint32_t i = begin; i < end; i++) {
        int r = merger_add(b->m, i, 1, t->bytes[(unsigned char)b->s[i]]);
        if (r < 0) return r;
    }
    int r = merger_run(b->m, t, b->s, bpe_pair);
    if (r < 0) return r;
    for (uint32_t i = 0; i != SYMBOL_NONE; i = b->m->symbols[i].next) {
        const struct symbol *sym = &b->m->symbols[i];
        if (sym->id < 0) continue; /* the vocabulary has no token for this byte: dropped, as in llama.cpp */
        r = tokens_push(b->out, sym->id, sym->off + sym->len);
        if (r < 0) return r;
    }
    return 0;
}

int bpe_encode(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end,
               struct tokens *out)
{
    struct bpe b = {.t = t, .m = m, .s = s, .out = out};
    return pretokenizer_split(t->pre, s, begin, end, piece, &b);
}

static const char merges_key[] = "tokenizer.ggml.merges";

/* A merge while the table is built. */
struct entry {
    uint32_t rank;
    const char *text; /* left and right together, as bytes; NULL: this vocabulary does not have the merge */
    size_t left, len;
    uint64_t hash[3];
    int32_t id[3]; /* lengths of left, right, both */
};

/* The length of one of the two texts of a merge, written as in the keys, or -1. */
static ptrdiff_t decode(const struct tokenizer *t, char *out, const char *s, size_t len)
{
    if (t->spelling == SPELLING_ALPHABET) return bytes_decode(out, s, len);
    memcpy(out, s, len);
    return (ptrdiff_t)len;
}

/* @m is "left right" as tokens are written; a space as the first byte belongs to left. @scratch: 2 * key_max bytes. */
static int parse_merge(const struct tokenizer *t, struct gguf_str s, uint32_t rank, char *scratch, struct entry *e)
{
    const char *cut = s.len > 2 ? memchr(s.data + 1, ' ', s.len - 2) : NULL;
    if (!cut)
        return error_say(-EINVAL, "%s: merge %u, \"%.*s\", is not two texts with a space between them", merges_key,
                         rank, (int)(s.len < 64 ? s.len : 64), s.data);

    size_t llen = (size_t)(cut - s.data), rlen = s.len - llen - 1;
    *e = (struct entry){.rank = rank};
    /* The alphabet writes a byte with at most two bytes. A text longer than the longest token makes no token. */
    if (llen + rlen > 2 * (size_t)t->key_max) return 0;
    ptrdiff_t l = decode(t, scratch, s.data, llen);
    ptrdiff_t r = l < 0 ? -1 : decode(t, scratch + l, cut + 1, rlen);
    if (r < 0) return 0;
    e->text = scratch;
    e->left = (size_t)l;
    e->len = (size_t)(l + r);
    e->hash[0] = text_table_hash(&t->table, scratch, e->left);
    e->hash[1] = text_table_hash(&t->table, scratch + l, e->len - e->left);
    e->hash[2] = text_table_hash(&t->table, scratch, e->len);
    return 0;
}

/* Several merges advance together, because each spends most of its time waiting for memory of these tables. */
static void add_merges(struct tokenizer *t, struct entry *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!e[i].text) continue;
        const char *parts[3] = {e[i].text, e[i].text + e[i].left, e[i].text};
        const size_t lens[3] = {e[i].left, e[i].len - e[i].left, e[i].len};
        for (int k = 0; k < 3 && e[i].text; k++) {
            e[i].id[k] = text_table_find_hash(&t->table, &t->keys, parts[k], lens[k], e[i].hash[k]);
            if (e[i].id[k] < 0 || !token_mergeable(t, e[i].id[k])) e[i].text = NULL;
        }
        if (e[i].text) merge_table_prefetch(&t->merges, e[i].id[0], e[i].id[1]);
    }
    for (size_t i = 0; i < n; i++)
        if (e[i].text) merge_table_add(&t->merges, e[i].id[0], e[i].id[1], e[i].rank, e[i].id[2]);
}

static int read_merges(struct tokenizer *t, const struct gguf *g)
{
    const struct gguf_kv *kv = gguf_find(g, merges_key);
    if (!kv || kv->type != GGUF_ARRAY || kv->elem != GGUF_STRING)
        return error_say(-EINVAL, "%s: %s; BPE needs this key", merges_key,
                         kv ? "not an array of strings" : "no such key");
    if (kv->n >= 1u << 30)
        return error_say(-EINVAL, "%s: too many merges: %llu", merges_key, (unsigned long long)kv->n);

    struct entry batch[32];
    size_t n = 0, room = 2 * (size_t)t->key_max + 1;
    _cleanup_(freep) char *scratch = calloc(32, room);
    if (!scratch) return error_origin(-ENOMEM);
    int r = merge_table_init(&t->merges, kv->n);
    if (r < 0) return r;
    const void *it = NULL;
    struct gguf_str s;
    uint64_t rank;
    while (gguf_next_str(kv, &it, &s, &rank)) {
        r = parse_merge(t, s, (uint32_t)rank, scratch + n * room, &batch[n]);
        if (r < 0) return r;
        if (++n < 32) continue;
        add_merges(t, batch, n);
        n = 0;
    }
    add_merges(t, batch, n);
    return 0;
}

int bpe_pre(struct tokenizer *t, const struct gguf *g, const char *name)
{
    struct gguf_str pre;
    int r = gguf_get_str(g, "tokenizer.ggml.pre", &pre);
    if (r < 0) return r;
    if (name) {
        pre = (struct gguf_str){name, strlen(name)};
    } else if (r > 0) { /* older files do not name it */
        log_warning("%s: no tokenizer.ggml.pre: the tokenization may differ from that of the training", gguf_path(g));
        pre = (struct gguf_str){"default", 7};
    }
    return pretokenizer_new(&t->pre, pre.data, pre.len);
}

int bpe_init(struct tokenizer *t, const struct gguf *g)
{
    if (t->spelling == SPELLING_SPACED) {
        spm_bytes(t);
        return read_merges(t, g);
    }
    for (unsigned b = 0; b < 256; b++) {
        char byte = (char)b;
        t->bytes[b] = vocab_find(t, &byte, 1);
    }
    return read_merges(t, g);
}
