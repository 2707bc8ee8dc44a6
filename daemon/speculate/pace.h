/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How far to trust a match: the share of its tokens that came true, by the length of the match. Token i of a draft
 * follows a match that is i tokens longer, so the acceptance by length is also that by depth. It is learned from all
 * matches, also from those that no step verified: the tokens that were sampled show whether they would have been
 * accepted. A sequence has its own experience, which begins as that of its user's sequences before.
 */
#include <stdbool.h>
#include <stdint.h>

#define PACE_LENGTHS 6 /* matches of 1, 2, 3-4, 5-8, 9-16, 17 and more tokens */

struct pace {
    float tried[2][PACE_LENGTHS], hit[2][PACE_LENGTHS]; /* [near or not]; old experience fades */
};

/* A token followed a match of @length tokens. @share: of the match's places that agree on it. */
void pace_learn(struct pace *p, bool near, uint32_t length, float share, bool hit);

/* The probability that such a token is accepted, after the experience of a sequence @p and of its user @user. */
float pace_chance(const struct pace *p, const struct pace *user, bool near, uint32_t length, float share);
