/* SPDX-License-Identifier: MIT */
/* The tokens that may be next in a constrained answer. */
#include "daemon/sequence/constrain-calls.h"
#include "daemon/sequence/constrain-inside.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <string.h>

/* Is there no more text behind @s [@n]? 1, 0 or -errno. */
static int ends_behind(struct grammar_state *st, const char *s, size_t n)
{
    int r = grammar_state_accept_bytes(st, s, n);
    if (r <= 0) return r;
    bool end = grammar_state_must_end(st);
    grammar_state_rollback(st, 1);
    return end;
}

/* The first token that the tokenizer makes of @forced. The last token of the text is not known while more text may
 * follow, because they may become one token. 1 and *id; 0: none; -errno. */
static int first_token(struct constrain *x, const struct buf *forced, int32_t *id)
{
    struct text text = {0};
    struct tokens t = {0};
    size_t len, whole = utf8_check(forced->data, forced->len);
    const char *s;
    if (whole == 0) return 0;
    int r = text_append(&text, forced->data, whole, false);
    if (r == 0) r = tokenizer_encode(x->c.tokenizer, &text, 0, false, &t);
    if (r == 0 && t.n) {
        s = token_trie_text(x->c.trie, t.ids[0], &len);
        bool same = s && len <= whole && memcmp(s, forced->data, len) == 0;
        *id = t.ids[0];
        r = !same ? 0 : t.n > 1 ? 1 : whole == forced->len ? ends_behind(x->st, forced->data, whole) : 0;
    }
    tokens_fini(&t);
    text_fini(&text);
    return r;
}

int constrain_only(struct constrain *x, int32_t *id)
{
    struct buf forced = BUF_INIT;
    if (x->closes) {
        size_t n = grammar_state_accepts(x->st) - x->closes_from;
        if (n >= x->closing.n) return 0;
        *id = x->closing.ids[n];
        return 1;
    }
    int r = grammar_state_forced(x->st, &forced, CONSTRAIN_FORCED_MAX);
    if (r == 0 && forced.len) r = first_token(x, &forced, id);
    buf_fini(&forced);
    return r;
}

static void set(uint64_t *mask, int32_t id)
{
    mask[id >> 6] |= UINT64_C(1) << (id & 63);
}

/* All control tokens but ends of generation: marks of a format. */
static void set_controls(struct constrain *x)
{
    for (uint32_t id = 0; id < x->c.trie->vocab; id++)
        if (tokenizer_is_control(x->c.tokenizer, (int32_t)id)) set(x->mask, (int32_t)id);
}

/* The tokens of marks before the answer. Few first bytes can begin one. */
static void add_marks(struct constrain *x)
{
    bool begins[256];
    for (int i = 0; i < 256; i++) begins[i] = x->parser->ops->is_mark(x->parser, &(const char){(char)i}, 1);
    for (uint32_t id = 0; id < x->c.trie->vocab; id++) {
        size_t len;
        const char *s = tokenizer_piece(x->c.tokenizer, (int32_t)id, &len);
        if (len == 0 || !begins[(uint8_t)*s] || tokenizer_is_eog(x->c.tokenizer, (int32_t)id)) continue;
        if (constrain_is_mark(x, (int32_t)id)) set(x->mask, (int32_t)id);
    }
}

/* Before the answer. 0 or -errno. */
static int mask_before(struct constrain *x)
{
    const struct token_trie *t = x->c.trie;
    enum channel_before at = constrain_before(x);
    if (at == BEFORE_FREE) {
        if (x->n_refused == CONSTRAIN_REFUSED_MAX)
            set_controls(x);
        else
            memset(x->mask, 0xff, token_trie_words(t) * sizeof(*x->mask));
        for (uint32_t i = 0; i < t->n_ends; i++) x->mask[t->ends[i] >> 6] &= ~(UINT64_C(1) << (t->ends[i] & 63));
        return 0;
    }
    int r = at == BEFORE_TEXT ? grammar_state_mask(x->st, t, x->mask) : 0;
    if (r == 0) add_marks(x);
    return r;
}

int constrain_mask(struct constrain *x)
{
    const struct token_trie *t = x->c.trie;
    size_t words = token_trie_words(t);
    int32_t only;
    int r = 0;
    memset(x->mask, 0, words * sizeof(*x->mask));
    if (x->parser) {
        r = mask_before(x);
    } else if ((r = constrain_only(x, &only)) > 0) {
        set(x->mask, only);
    } else if (r == 0 && x->closes) {
        for (uint32_t i = 0; i < t->n_ends; i++) set(x->mask, t->ends[i]);
    } else if (r == 0) {
        r = grammar_state_mask(x->st, t, x->mask);
    }
    if (r < 0) return r;
    for (uint32_t i = 0; i < x->n_refused; i++) x->mask[x->refused[i] >> 6] &= ~(UINT64_C(1) << (x->refused[i] & 63));
    for (size_t i = 0; i < words; i++)
        if (x->mask[i]) return 0;
    return error_say(-EDOM, "no token of the model can continue the answer");
}

/* --- ahead of the logits --- */

static const struct logits_processor *find(const struct sampling *s)
{
    const struct logits_processor *p = s->chain.first;
    while (p && strcmp(p->ops->name, CONSTRAIN_NAME) != 0) p = p->next;
    return p;
}

uint32_t constrain_forced(const struct sampling *s, int32_t *out, uint32_t max)
{
    struct constrain *x = (struct constrain *)find(s);
    size_t n = 0;
    if (!x || x->parser || x->n_refused) return 0;
    while (n < max && constrain_only(x, &out[n]) > 0 && grammar_state_accept_token(x->st, x->c.trie, out[n]) > 0) n++;
    size_t accepted = n;
    if (n < max && grammar_state_must_end(x->st) && tokenizer_eos(x->c.tokenizer) >= 0)
        out[n++] = tokenizer_eos(x->c.tokenizer);
    grammar_state_rollback(x->st, accepted);
    return (uint32_t)n;
}

int constrain_place(const struct sampling *s, const int32_t *ids, uint32_t n, struct grammar_state **out)
{
    const struct constrain *x = (const struct constrain *)find(s);
    const struct token_trie *trie = x ? x->c.trie : NULL;
    struct grammar_state *place, *now = !x ? constrain_calls_place(s, &trie) : x->parser || x->closes ? NULL : x->st;
    if (!now) return 0;
    int r = grammar_state_clone(now, &place);
    if (r < 0) return r;
    for (uint32_t i = 0; r == 0 && i < n; i++) r = grammar_state_accept_token(place, trie, ids[i]) > 0 ? 0 : -1;
    if (r == 0 && !grammar_state_has_ended(place)) {
        *out = place;
        return 1;
    }
    grammar_state_free(place);
    return 0;
}
