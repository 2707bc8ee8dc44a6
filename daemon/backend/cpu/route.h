/* SPDX-License-Identifier: MIT */
#pragma once
/* The choice of a token's experts. */
#include "daemon/model/hparams.h"

/* Write the numbers of the x->used experts of a token to chosen[used], in the order of choice, and the factors of their
 * outputs to share[used], from the scores[x->n] of its router. A NaN counts as -infinity. Each operation is rounded.
 *
 * The probability p of an expert is 1 / (1 + exp(-score)) (x->sigmoid), or exp(score - largest) / sum over all experts,
 * ascending. The largest p + choice_bias are chosen, largest first; of equal ones the first is first. With groups, the
 * sum of the two largest p + choice_bias of each group (the larger first) chooses x->groups_used of them in the same
 * way, and only their experts are considered. share is p * scale (x->of_all), or p / max(sum of the chosen p, in their
 * order, 2^-14) * scale.
 *
 * Without a sigmoid, a bias and groups the largest scores are chosen, and share is exp(score - largest) / sum * scale,
 * the sum over all experts ascending (x->of_all), or over the chosen ones in their order.
 *
 * @choice_bias: [n], or NULL. */
void route(const struct hparams_experts *x, const float *scores, const float *choice_bias, uint32_t *chosen,
           float *share);
