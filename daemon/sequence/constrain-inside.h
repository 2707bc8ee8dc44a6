/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of a constrained answer, for constrain*.c. */
#include "daemon/sequence/constrain.h"

#define CONSTRAIN_FORCED_MAX  96 /* bytes looked ahead for text that must follow */
#define CONSTRAIN_REFUSED_MAX 8  /* tokens refused at one place */

struct constrain {
    struct logits_processor base;
    struct constrain_config c;
    struct grammar_state *st;
    bool broken; /* there was no memory for a rollback */

    /* Before the answer. */
    struct channel_parser *parser; /* NULL: the answer has begun */
    struct detok detok;
    struct tokens before; /* their ends are not used */
    size_t straddle;      /* accepts of @st that belong to the last token before the answer: 0 or 1 */

    /* At the present place. */
    uint64_t *mask; /* [token_trie_words] of the last apply, less the tokens that were refused */
    int32_t refused[CONSTRAIN_REFUSED_MAX];
    uint32_t n_refused;

    /* The tokens that complete the answer, once no others may. */
    struct tokens closing;
    bool closes;
    size_t closes_from; /* accepts of @st when it began */
};

/* Tokens of the answer so far. */
static inline size_t constrain_length(const struct constrain *x)
{
    return x->before.n + grammar_state_accepts(x->st) - x->straddle;
}

/* constrain-before.c: before the answer. */

/* As before any token: a new parser, and the answer if it begins at once. 0 or -ENOMEM. */
int constrain_begin(struct constrain *x);
/* 0; -EAGAIN: @id is refused; -ENOMEM: nothing has changed. */
int constrain_accept_before(struct constrain *x, int32_t id);
enum channel_before constrain_before(const struct constrain *x);
/* Not in BEFORE_FREE: may token @id come next without beginning the answer? */
bool constrain_is_mark(const struct constrain *x, int32_t id);
/* The answer begins, and is its shortest completion. 0 or -errno; sets the error message. */
int constrain_close_before(struct constrain *x);

/* constrain-next.c: the tokens that may be next in the answer. */

/* The only token at this place; -1: there are others, or it is not known. -ENOMEM. */
int constrain_only(struct constrain *x, int32_t *id);
/* Fills x->mask. 0; -EDOM: no token can follow; or another error; sets the error message. */
int constrain_mask(struct constrain *x);

/* constrain-close.c: the end within the limit. */

/* Fits the shortest completion of the present text into @left tokens? 1, 0, or -errno; sets the error message. */
int constrain_fits(struct constrain *x, size_t left);
/* From now on only the shortest completion may follow. 0 or -errno; sets the error message. */
int constrain_close(struct constrain *x);
