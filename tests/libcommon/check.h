/* SPDX-License-Identifier: MIT */
#pragma once
/* What every test here includes: cmocka with what it needs before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>

/* A small generator with a fixed seed: the same "random" sizes in every run (Knuth's MMIX constants). */
static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
