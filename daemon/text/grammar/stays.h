/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Where a walk of the trie with an automaton may leave out a subtree, because all of its tokens stay inside the
 * terminal: the states that the bytes of the subtree lead to, in any order, are alive. A string in JSON, for example,
 * stays inside whatever letters follow, also while a pattern counts them.
 */
#include "daemon/text/grammar/dfa.h"
#include "daemon/text/grammar/token-trie.h"

/* Whether all tokens below node @i stay inside from state @q on, which is that of the node: 1, 0: not known, or the
 * error of @d. Sets *@ends if it is 1: whether the terminal may end on the way. */
int stays_below(struct dfa *d, const struct token_trie *t, uint32_t i, uint32_t q, bool *ends);
