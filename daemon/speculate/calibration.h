/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How far to trust a draft model: the share of its tokens that came true, by the probability that it gave them. It is
 * learned from all its drafts, also from those that no step verified. A sequence has its own experience, which begins
 * as that of its user's sequences before.
 */
#include <stdbool.h>

#define CALIBRATION_CLASSES 8 /* of probabilities, by their upper ends in calibration.c */

struct calibration {
    float tried[CALIBRATION_CLASSES], hit[CALIBRATION_CLASSES]; /* old experience fades */
};

/* A token to which the draft model gave @probability came, or another. */
void calibration_learn(struct calibration *c, float probability, bool hit);

/* The probability that such a token is accepted, after the experience of a sequence @c and of its user @user. */
float calibration_chance(const struct calibration *c, const struct calibration *user, float probability);

/* The same of a token that is not drafted yet. */
float calibration_mean(const struct calibration *c, const struct calibration *user);

/* Too few tokens were tried to say anything. */
bool calibration_is_new(const struct calibration *c);
