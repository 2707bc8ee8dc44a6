/* SPDX-License-Identifier: MIT */
#include "daemon/request/grammar-processor.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>

struct grammar_processor {
    struct logits_processor base;
    struct grammar_state *state;
    const struct token_trie *trie;
    uint64_t *mask; /* scratch, [token_trie_words(trie)] */
};

/* The logits of one word of the mask. Returns how many stay. */
static uint32_t apply_word(float *x, uint64_t allowed, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool in = allowed >> i & 1;
        if (!in) x[i] = -INFINITY;
        kept += in;
    }
    return kept;
}

static int grammar_apply(struct logits_processor *p, struct logits_row *row, const struct logits_history *h)
{
    struct grammar_processor *g = (struct grammar_processor *)p;
    float *x = logits_write(row);
    int r = grammar_state_mask(g->state, g->trie, g->mask);
    if (r < 0) return r;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < row->vocab; i += 64) {
        uint64_t allowed = i / 64 < token_trie_words(g->trie) ? g->mask[i / 64] : 0;
        uint32_t n = row->vocab - i < 64 ? row->vocab - i : 64;
        if (allowed != UINT64_MAX || n < 64)
            kept += apply_word(x + i, allowed, n);
        else
            kept += n;
    }
    return kept ? 0 : error_say(-EPROTO, "no token of the model continues the answer as the constraint demands");
}

static int grammar_accept(struct logits_processor *p, int32_t token)
{
    struct grammar_processor *g = (struct grammar_processor *)p;
    int r = grammar_state_accept_token(g->state, g->trie, token);
    if (r == 0) return error_say(-EPROTO, "the constraint does not allow token %d", (int)token);
    return r < 0 ? r : 0;
}

static void grammar_rollback(struct logits_processor *p, size_t n)
{
    grammar_state_rollback(((struct grammar_processor *)p)->state, n);
}

static void grammar_free(struct logits_processor *p)
{
    struct grammar_processor *g = (struct grammar_processor *)p;
    grammar_state_free(g->state);
    free(g->mask);
    free(g);
}

static int grammar_clone(const struct logits_processor *p, struct logits_processor **out);

static const struct logits_processor_ops grammar_ops = {.name = "grammar",
                                                        .apply = grammar_apply,
                                                        .accept = grammar_accept,
                                                        .rollback = grammar_rollback,
                                                        .clone = grammar_clone,
                                                        .free = grammar_free};

/* Takes @st, which may be NULL for lack of memory. */
static int processor_of(struct logits_processor **out, struct grammar_state *st, const struct token_trie *t)
{
    struct grammar_processor *g = calloc(1, sizeof(*g));
    uint64_t *mask = calloc(token_trie_words(t) + 1, sizeof(*mask));
    if (!g || !mask || !st) {
        free(g);
        free(mask);
        grammar_state_free(st);
        return -ENOMEM;
    }
    *g = (struct grammar_processor){{.ops = &grammar_ops}, st, t, mask};
    *out = &g->base;
    return 0;
}

static int grammar_clone(const struct logits_processor *p, struct logits_processor **out)
{
    const struct grammar_processor *g = (const struct grammar_processor *)p;
    struct grammar_state *st = NULL;
    int r = grammar_state_clone(g->state, &st);
    return r < 0 ? r : processor_of(out, st, g->trie);
}

int grammar_processor_new(struct logits_processor **out, struct grammar *g, const struct token_trie *t)
{
    struct grammar_state *st = NULL;
    int r = grammar_state_new(&st, g);
    return r < 0 ? r : processor_of(out, st, t);
}

struct grammar_state *grammar_processor_state(struct logits_processor *p)
{
    return ((struct grammar_processor *)p)->state;
}
