/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/constrain-calls.h"
#include "daemon/sequence/channel-feed.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME "calls"

enum { REFUSED_MAX = 32 }; /* tokens refused at one place */

struct constrain_calls {
    struct logits_processor base;
    struct constrain_calls_config c;
    struct channel_reader reader;
    struct grammar_state *st; /* in a call; NULL: free text */
    struct tokens past;       /* all tokens so far, for a rollback; their ends are not used */
    bool broken;              /* there was no memory */
    uint64_t *mask; /* [token_trie_words] in free text the tokens that may come once n_refused is at its most */
    int32_t refused[REFUSED_MAX];
    uint32_t n_refused;
};

/* Is @r in a call for sure? 1, 0 or -ENOMEM. */
static int is_in_call(const struct channel_reader *r)
{
    struct buf text = BUF_INIT;
    int e = r->parser->ops->call_text ? r->parser->ops->call_text(r->parser, &text) : 0;
    buf_fini(&text);
    return e;
}

/* The call that @r has entered, if it has: the grammar reads the text behind its mark. 1: *out is the place, which the
 * caller owns; 0: there is none; -EAGAIN: the grammar does not allow that text; -errno. */
static int enter(const struct constrain_calls *x, const struct channel_reader *r, struct grammar_state **out)
{
    const struct channel_parser_ops *ops = r->parser->ops;
    struct buf text = BUF_INIT;
    struct grammar_state *st = NULL;
    int e = ops->call_text ? ops->call_text(r->parser, &text) : 0;
    if (e > 0) {
        e = grammar_state_new(&st, x->c.grammar);
        if (e == 0) e = text.len ? grammar_state_accept_bytes(st, text.data, text.len) : 1;
        if (e == 0) e = -EAGAIN;
    }
    buf_fini(&text);
    if (e > 0)
        *out = st;
    else
        grammar_state_free(st);
    return e;
}

/* Token @id in free text. 0, and the caller owns *r, the reader behind it, and *st, the call that it enters, or NULL;
 * -EAGAIN: it would enter a call that the grammar does not allow; -ENOMEM. */
static int try_free(const struct constrain_calls *x, int32_t id, struct channel_reader *r, struct grammar_state **st)
{
    *st = NULL;
    int e = channel_reader_clone(r, &x->reader);
    if (e < 0) return e;
    e = channel_reader_feed(r, id);
    if (e == 0) e = enter(x, r, st);
    if (e == 0 && r->ended != x->reader.ended && (e = is_in_call(&x->reader)) == 0) e = -EAGAIN; /* a whole call */
    if (e < 0) {
        *st = grammar_state_free(*st);
        channel_reader_fini(r);
    }
    return e < 0 ? e : 0;
}

static int read_free(struct constrain_calls *x, int32_t id)
{
    struct channel_reader r;
    struct grammar_state *st;
    int e = try_free(x, id, &r, &st);
    if (e < 0) return e;
    channel_reader_fini(&x->reader);
    x->reader = r;
    x->st = st;
    return 0;
}

static int read_call(struct constrain_calls *x, int32_t id)
{
    int r = grammar_state_accept_token(x->st, x->c.trie, id);
    if (r <= 0) return r < 0 ? r : -EAGAIN;
    x->broken = channel_reader_feed(&x->reader, id) < 0;
    if (x->broken) return -ENOMEM;
    bool over = grammar_state_is_accepted(x->st) && !channel_reader_is_at(&x->reader, CHANNEL_TOOL_CALL);
    if (over || grammar_state_must_end(x->st) || grammar_state_has_ended(x->st)) x->st = grammar_state_free(x->st);
    return 0;
}

static int read(struct constrain_calls *x, int32_t id)
{
    int r = tokens_push(&x->past, id, 0);
    if (r == 0) r = x->st ? read_call(x, id) : read_free(x, id);
    if (r < 0 && x->past.n) x->past.n--;
    if (r == 0) x->n_refused = 0;
    return r;
}

static int apply(struct logits_processor *p, struct logits_row *row, const struct logits_history *h)
{
    struct constrain_calls *x = (struct constrain_calls *)p;
    size_t words = token_trie_words(x->c.trie);
    if (!x->st && !x->n_refused) return 0;
    for (uint32_t i = 0; i < x->n_refused; i++) logits_set(row, (uint32_t)x->refused[i], -INFINITY);
    if (!x->st && x->n_refused < REFUSED_MAX) return 0;
    if (x->st) {
        memset(x->mask, 0, words * sizeof(*x->mask));
        int r = grammar_state_mask(x->st, x->c.trie, x->mask);
        if (r < 0) return r;
    }
    logits_allow(row, x->mask, words);
    return 0;
}

/* Adds @id to the mask if it may come in free text. 0 or -ENOMEM. */
static int add_free(struct constrain_calls *x, int32_t id)
{
    struct channel_reader r;
    struct grammar_state *st;
    int e = try_free(x, id, &r, &st);
    if (e == -EAGAIN) return 0;
    if (e < 0) return e;
    x->mask[id >> 6] |= UINT64_C(1) << (id & 63);
    channel_reader_fini(&r);
    grammar_state_free(st);
    return 0;
}

/* The model insists on a call that the grammar does not allow: fills the mask with the single characters and the ends
 * that may come, few enough to be tried one by one. 0 or -ENOMEM. */
static int limit_choice(struct constrain_calls *x)
{
    const struct token_trie *t = x->c.trie;
    int r = 0;
    memset(x->mask, 0, token_trie_words(t) * sizeof(*x->mask));
    for (uint32_t i = 0; r == 0 && i < t->n_ends; i++) r = add_free(x, t->ends[i]);
    for (uint32_t id = 0; r == 0 && id < t->vocab; id++) {
        size_t len;
        const char *s = token_trie_text(t, (int32_t)id, &len);
        if (s && len == 1 && *s > ' ' && *s < 0x7f) r = add_free(x, (int32_t)id);
    }
    return r;
}

static int accept(struct logits_processor *p, int32_t id)
{
    struct constrain_calls *x = (struct constrain_calls *)p;
    if (x->broken) return -ENOMEM;
    int r = read(x, id);
    if (r != -EAGAIN) return r;
    if (x->n_refused == REFUSED_MAX) return error_say(-EDOM, "no token of the model can continue the answer");
    x->refused[x->n_refused++] = id;
    if (x->n_refused == REFUSED_MAX && limit_choice(x) < 0) {
        x->n_refused--;
        return -ENOMEM;
    }
    return -EAGAIN;
}

static int start(struct constrain_calls *x)
{
    channel_reader_fini(&x->reader);
    x->st = grammar_state_free(x->st);
    x->n_refused = 0;
    int r = channel_reader_init(&x->reader, x->c.tokenizer, x->c.format);
    if (r == 0) r = enter(x, &x->reader, &x->st);
    return r < 0 ? r : 0;
}

/* A failure ends the answer at its next token. */
static void rollback(struct logits_processor *p, size_t n)
{
    struct constrain_calls *x = (struct constrain_calls *)p;
    x->broken = start(x) < 0;
    if (!x->broken) x->broken = channel_replay(p, &x->past, n) < 0;
}

static void fini(struct logits_processor *p)
{
    struct constrain_calls *x = (struct constrain_calls *)p;
    grammar_state_free(x->st);
    grammar_unref(x->c.grammar);
    channel_reader_fini(&x->reader);
    tokens_fini(&x->past);
    free(x->mask);
    free(x);
}

static int clone(const struct logits_processor *p, struct logits_processor **out);

static const struct logits_processor_ops ops = {
    .name = NAME, .apply = apply, .accept = accept, .rollback = rollback, .clone = clone, .free = fini};

static struct constrain_calls *new_empty(const struct constrain_calls_config *c)
{
    struct constrain_calls *x = calloc(1, sizeof(*x));
    if (!x) return NULL;
    x->base.ops = &ops;
    x->c = *c;
    x->mask = calloc(token_trie_words(c->trie), sizeof(*x->mask));
    grammar_ref(c->grammar);
    if (x->mask) return x;
    fini(&x->base);
    return NULL;
}

static int clone(const struct logits_processor *p, struct logits_processor **out)
{
    const struct constrain_calls *from = (const struct constrain_calls *)p;
    struct constrain_calls *x = new_empty(&from->c);
    if (!x) return -ENOMEM;
    int r = channel_reader_clone(&x->reader, &from->reader);
    if (r == 0 && from->st) r = grammar_state_clone(from->st, &x->st);
    if (r == 0) r = tokens_copy(&x->past, &from->past);
    if (r < 0) {
        fini(&x->base);
        return -ENOMEM;
    }
    x->broken = from->broken;
    memcpy(x->refused, from->refused, sizeof(x->refused));
    x->n_refused = from->n_refused;
    memcpy(x->mask, from->mask, token_trie_words(x->c.trie) * sizeof(*x->mask));
    *out = &x->base;
    return 0;
}

struct grammar_state *constrain_calls_place(const struct sampling *s, const struct token_trie **trie)
{
    const struct logits_processor *p = s->chain.first;
    while (p && strcmp(p->ops->name, NAME) != 0) p = p->next;
    const struct constrain_calls *x = (const struct constrain_calls *)p;
    if (!x) return NULL;
    *trie = x->c.trie;
    return x->st;
}

int constrain_calls_new(struct logits_processor **out, const struct constrain_calls_config *c)
{
    struct constrain_calls *x = new_empty(c);
    if (!x) return error_origin(-ENOMEM);
    int r = start(x);
    if (r < 0)
        fini(&x->base);
    else
        *out = &x->base;
    return r;
}
