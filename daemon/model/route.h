/* SPDX-License-Identifier: MIT */
#pragma once
/* Which experts a token goes to. */
#include <stdbool.h>
#include <stdint.h>

/* The @used largest of scores[n], largest first, of equal ones the first: chosen[used], and share[used] by which their
 * outputs are multiplied: exp(score - largest) / sum * scale, two roundings, the sum in f32 over all n ascending
 * (@of_all) or over the chosen as they follow. A NaN counts as -infinity. 1 <= used <= n. */
void route(const float *scores, uint32_t n, uint32_t used, bool of_all, float scale, uint32_t *chosen, float *share);
