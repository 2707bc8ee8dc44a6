/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A compiled grammar, and the place of one answer in it. A grammar is a set of texts (byte strings). It is compiled
 * lazily: what a place needs is computed when it is asked for, and kept for all answers with this grammar. Any thread
 * may use a grammar; a state belongs to one thread at a time.
 *
 * Limits: regex.h (expressions and automata, work), rules.h (productions), rows.h (parses). Beyond them a call fails
 * with -E2BIG, -ELOOP or -ETIME and a message, and the text is neither accepted nor refused.
 */
#include "daemon/text/grammar/grammar-build.h"
#include "libcommon/buf.h"

struct grammar;
struct grammar_state;
struct token_trie;

/* Who shares parts of masks: those with an equal space. */
struct mask_space {
    uint64_t id[2];
};

/* Compiles @root, and takes all expressions of @b: only grammar_builder_free(b) may follow. 0, and the caller holds
 * *out; or the builder's first error; -EDOM: no text satisfies the grammar; -E2BIG; -ETIME; -ENOMEM: sets the error
 * message. */
int grammar_build(struct grammar **out, struct grammar_builder *b, expr_t root);
/* Parts of masks are shared with the grammars of the same space only; at first it is {{0}}. Before the first mask. */
void grammar_set_space(struct grammar *g, struct mask_space space);
struct grammar *grammar_ref(struct grammar *g);
struct grammar *grammar_unref(struct grammar *g); /* NULL ok, returns NULL */

/* The place before any text. 0, and the caller owns *out, which holds @g; or -errno; sets the error message. */
int grammar_state_new(struct grammar_state **out, struct grammar *g);
int grammar_state_clone(const struct grammar_state *st, struct grammar_state **out); /* 0 or -ENOMEM */
struct grammar_state *grammar_state_free(struct grammar_state *st);                  /* NULL ok, returns NULL */

/*
 * Accept text, or one token of @t. A token is accepted by its text, or as a token that the grammar names. An end of
 * generation is accepted if the text is; nothing may follow it. 1; 0: the grammar does not allow it, and nothing has
 * changed; or -errno; sets the error message, and nothing has changed.
 */
int grammar_state_accept_bytes(struct grammar_state *st, const char *s, size_t n);
int grammar_state_accept_token(struct grammar_state *st, const struct token_trie *t, int32_t id);
/* Undo the last @n accepts, no more than there were. */
void grammar_state_rollback(struct grammar_state *st, size_t n);
size_t grammar_state_accepts(const struct grammar_state *st); /* how many there were */

bool grammar_state_may_follow(struct grammar_state *st, uint8_t b); /* also false after an error */
bool grammar_state_is_accepted(struct grammar_state *st);           /* the text so far is in the grammar */
bool grammar_state_must_end(struct grammar_state *st);              /* and no longer one is */
bool grammar_state_has_ended(const struct grammar_state *st);       /* an end of generation was accepted */

/* Appends the bytes that must follow, at most @max. 0 or -errno. */
int grammar_state_forced(struct grammar_state *st, struct buf *out, size_t max);

/* Appends the shortest text that completes the answer: none if it is accepted. 0; -E2BIG: it is longer than @max, or
 * not found within the limits; sets the error message; -ENOMEM. */
int grammar_state_shortest(struct grammar_state *st, struct buf *out, size_t max);

/* The tokens of @t that may be next: bit i of @mask [token_trie_words(t)] is token i. 0 or -errno; sets the error
 * message. There is always one, unless no token has the bytes that must follow, or the text has ended. */
int grammar_state_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *mask);
