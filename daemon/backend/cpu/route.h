/* SPDX-License-Identifier: MIT */
#pragma once
/* The choice of a token's experts. */
#include <stdbool.h>
#include <stdint.h>

/* Write the numbers of the @used largest of scores[n] to chosen[used], largest first; of equal ones the first is first.
 * share[used] is the factor of an expert's output: exp(score - largest) / sum * scale, rounded after each operation.
 * The sum is in f32, over all n ascending (@of_all), or over the chosen in their order. A NaN counts as -infinity. 1 <=
 * used <= n. */
void route(const float *scores, uint32_t n, uint32_t used, bool of_all, float scale, uint32_t *chosen, float *share);
