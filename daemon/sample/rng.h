/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The random numbers of an answer, counter-based: Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers:
 * as easy as 1, 2, 3", SC'11). There is no state: the same (seed, answer, token) always gives the same number.
 */
#include <stdint.h>

/* The block cipher itself: ten rounds over @ctr under @key. */
void rng_philox(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2]);

/* Uniform in [0, 1), 53 bits: for the @token-th token (from 0) of the @answer-th answer. Key: seed, low word first.
 * Counter: token (two words), answer, 0. The number is words 0 and 1 (low, high) of the result, shifted right by 11. */
double rng_uniform(uint64_t seed, uint32_t answer, uint64_t token);
