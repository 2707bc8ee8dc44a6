/* SPDX-License-Identifier: MIT */
#include "daemon/request/top-tokens.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* The ids of the @n largest logits into @best. Returns how many there are; a logit that is no number counts not. */
static uint32_t select_best(int32_t best[static PROTO_TOP_MAX], const struct top_row *row, uint32_t n)
{
    uint32_t have = 0;
    for (uint32_t i = 0; n > 0 && i < row->vocab; i++) {
        float x = row->logits[i];
        if (!(have < n ? x == x : x > row->logits[best[n - 1]])) continue;
        uint32_t at = have < n ? have++ : n - 1;
        for (; at > 0 && x > row->logits[best[at - 1]]; at--) best[at] = best[at - 1];
        best[at] = (int32_t)i;
    }
    return have;
}

static int add(struct proto_event *e, const struct tokenizer *t, const struct top_row *row, int32_t id)
{
    size_t len;
    const char *piece = tokenizer_piece(t, id, &len);
    if (e->tokens.n_top == 0 && tokenizer_is_control(t, id)) len = 0;
    struct proto_token *x = &e->tokens.top[e->tokens.n_top++];
    *x = (struct proto_token){.id = id, .logprob = (row->logits[id] - row->max) - row->lse};
    return proto_text_set(&x->text, len ? piece : "", len);
}

int top_tokens(struct proto_event *e, const struct tokenizer *t, const struct top_row *row, int32_t id, uint32_t n)
{
    int32_t best[PROTO_TOP_MAX];
    assert(n <= PROTO_TOP_MAX);
    uint32_t have = select_best(best, row, n);
    e->tokens.top = calloc((size_t)have + 1, sizeof(*e->tokens.top));
    int r = e->tokens.top ? add(e, t, row, id) : -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < have; i++) r = add(e, t, row, best[i]);
    return r;
}
