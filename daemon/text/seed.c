/* SPDX-License-Identifier: MIT */
#include "daemon/text/seed.h"
#include <string.h>
#include <sys/auxv.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_seed(void)
{
    const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    uint64_t seed[2] = {0};
    if (random) memcpy(seed, random, sizeof(seed));
    return XXH3_64bits_withSeed(seed, sizeof(seed),
                                1); /* the random bytes also guard the stack, so they must not leak */
}
