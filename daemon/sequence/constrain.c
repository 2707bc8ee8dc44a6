/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/constrain.h"
#include "daemon/sequence/constrain-inside.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static int apply(struct logits_processor *p, struct logits_row *row, const struct logits_history *h)
{
    struct constrain *x = (struct constrain *)p;
    int r = constrain_mask(x);
    if (r < 0) return r;
    logits_allow(row, x->mask, token_trie_words(x->c.trie));
    return 0;
}

/* Token @id is not taken, and another one is to be sampled. -EAGAIN; or an error. */
static int refuse(struct constrain *x, int32_t id)
{
    if (x->n_refused == CONSTRAIN_REFUSED_MAX) /* a mark of the format: no list has it, and it would be sampled again */
        return error_say(-EDOM, "the model does not begin the answer");
    x->mask[id >> 6] &= ~(UINT64_C(1) << (id & 63));
    x->refused[x->n_refused++] = id;
    bool others = x->n_refused < CONSTRAIN_REFUSED_MAX;
    for (size_t i = 0; others && i < token_trie_words(x->c.trie); i++)
        if (x->mask[i]) return -EAGAIN;
    bool before = x->parser != NULL;
    if (before && constrain_before(x) == BEFORE_FREE) return -EAGAIN; /* only marks of the format are left */
    int r = before ? constrain_close_before(x) : constrain_close(x);
    x->n_refused = 0;
    return r < 0 ? r : -EAGAIN;
}

/* In the answer. */
static int accept_text(struct constrain *x, int32_t id)
{
    int r = grammar_state_accept_token(x->st, x->c.trie, id);
    if (r == 0) return error_say(-EDOM, "the grammar does not allow token %d", (int)id);
    if (r < 0 || !x->c.close || x->closes || grammar_state_has_ended(x->st)) return r < 0 ? r : 0;
    r = constrain_fits(x, x->c.max_tokens - constrain_length(x));
    if (r > 0) return 0;
    grammar_state_rollback(x->st, 1);
    return r < 0 ? r : refuse(x, id);
}

static int accept(struct logits_processor *p, int32_t id)
{
    struct constrain *x = (struct constrain *)p;
    int r;
    if (x->broken) return -ENOMEM;
    if (x->parser) {
        r = constrain_accept_before(x, id);
        if (r == -EAGAIN) r = refuse(x, id);
    } else {
        r = accept_text(x, id);
    }
    if (r == 0) x->n_refused = 0;
    return r;
}

/* Read the tokens before the answer again. A token that was accepted once is so again, but for lack of memory, which
 * ends the answer at the next token. */
static void replay(struct constrain *x, size_t n)
{
    struct tokens before = x->before;
    x->before = (struct tokens){0};
    x->straddle = 0;
    grammar_state_rollback(x->st, grammar_state_accepts(x->st));
    x->broken = constrain_begin(x) < 0;
    for (size_t i = 0; i < n && !x->broken; i++) x->broken = constrain_accept_before(x, before.ids[i]) < 0;
    tokens_fini(&before);
}

static void rollback(struct logits_processor *p, size_t n)
{
    struct constrain *x = (struct constrain *)p;
    size_t in_answer = grammar_state_accepts(x->st) - x->straddle;
    x->n_refused = 0;
    if (n < in_answer || (n == in_answer && x->straddle))
        grammar_state_rollback(x->st, n);
    else
        replay(x, x->before.n - (n - in_answer));
    if (x->closes && grammar_state_accepts(x->st) <= x->closes_from) x->closes = false;
}

static void fini(struct logits_processor *p)
{
    struct constrain *x = (struct constrain *)p;
    grammar_state_free(x->st);
    grammar_unref(x->c.grammar);
    if (x->parser) x->parser->ops->free(x->parser);
    tokens_fini(&x->before);
    tokens_fini(&x->closing);
    free(x->mask);
    free(x);
}

static int clone(const struct logits_processor *p, struct logits_processor **out);

static const struct logits_processor_ops ops = {
    .name = CONSTRAIN_NAME, .apply = apply, .accept = accept, .rollback = rollback, .clone = clone, .free = fini};

static struct constrain *new_empty(const struct constrain_config *c)
{
    struct constrain *x = calloc(1, sizeof(*x));
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
    const struct constrain *from = (const struct constrain *)p;
    struct constrain *x = new_empty(&from->c);
    if (!x) return -ENOMEM;
    int r = grammar_state_clone(from->st, &x->st);
    if (r == 0 && from->parser) r = from->parser->ops->clone(from->parser, &x->parser);
    if (r < 0) x->parser = NULL;
    if (r == 0) r = tokens_copy(&x->before, &from->before);
    if (r == 0) r = tokens_copy(&x->closing, &from->closing);
    if (r < 0) {
        fini(&x->base);
        return -ENOMEM;
    }
    x->detok = from->detok;
    x->straddle = from->straddle;
    memcpy(x->mask, from->mask, token_trie_words(x->c.trie) * sizeof(*x->mask));
    memcpy(x->refused, from->refused, sizeof(x->refused));
    x->n_refused = from->n_refused;
    x->closes = from->closes;
    x->closes_from = from->closes_from;
    x->broken = from->broken;
    *out = &x->base;
    return 0;
}

/* Can there be an answer at all? */
static int check(struct constrain *x)
{
    if (x->c.trie->n_ends == 0) return error_say(-EDOM, "the model has no token that ends an answer");
    int r = x->c.close ? constrain_fits(x, x->c.max_tokens) : 1;
    if (r == 0)
        r = error_say(-EDOM, "the shortest answer does not fit into %u tokens, the limit of this answer",
                      x->c.max_tokens);
    return r < 0 ? r : 0;
}

int constrain_new(struct logits_processor **out, const struct constrain_config *c)
{
    struct constrain *x = new_empty(c);
    if (!x) return error_origin(-ENOMEM);
    int r = grammar_state_new(&x->st, c->grammar);
    if (r == 0) r = constrain_begin(x);
    if (r == 0) r = check(x);
    if (r < 0)
        fini(&x->base);
    else
        *out = &x->base;
    return r;
}
