/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Drafts for one sequence: the tokens that followed the longest match of its end, in the sequence itself or in the past
 * of its namespace. What it proposes changes the number of steps of an answer, and nothing else.
 *
 * Costs, on one core of an AMD Zen 4: about 50 ns for each token that is read, and 0.4 to 2.3 us for a draft, the most
 * where one token repeats (tests/bench/bench-lookup).
 */
#include "daemon/speculate/past.h"

#define GUESS_TOKENS 32768 /* of the sequence, the last ones, in which it searches */
#define GUESS_MOST   16    /* tokens of a draft */

struct guesser;

/* For a sequence of @past, which must stay. 0 or -ENOMEM; the caller owns *out. */
int guesser_new(struct guesser **out, struct past *past);
struct guesser *guesser_free(struct guesser *g); /* NULL ok, returns NULL */

/* The sequence has the items @ids [n], those of earlier calls first: read at most @most of them that are new. Without
 * memory it reads none. */
void guesser_read(struct guesser *g, const int32_t *ids, uint32_t n, uint32_t most);

/* All of @ids [n] are read: write to @out at most @max tokens that may follow, and to @chance for each the probability
 * that it and all before it do. Returns how many. Learns from the draft before whether its tokens came. */
uint32_t guesser_propose(struct guesser *g, const int32_t *ids, uint32_t n, int32_t *out, float *chance, uint32_t max);

size_t guesser_bytes(const struct guesser *g);
