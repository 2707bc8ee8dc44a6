/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Counted repetitions that are too long to matter to a token: the 300 characters of a string, 299 of which are left.
 * All of their states get one part of a mask, that of the same expression without the limit.
 */
#include "daemon/text/grammar/dfa.h"

#define RELAX_BYTES 32 /* of the texts for which the two agree */

/* A state with fewer limits, whose texts of at most RELAX_BYTES bytes lead to dead, alive and accepting states just as
 * those of state @q do. 1: in *out; 0: there is none; or the error of @d. */
int relax_state(struct dfa *d, uint32_t q, uint32_t *out);
