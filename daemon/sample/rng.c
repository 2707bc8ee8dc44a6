/* SPDX-License-Identifier: MIT */
#include "daemon/sample/rng.h"

void rng_philox(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

double rng_uniform(uint64_t seed, uint32_t answer, uint64_t token)
{
    const uint32_t ctr[4] = {(uint32_t)token, (uint32_t)(token >> 32), answer, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    rng_philox(out, ctr, key);
    uint64_t bits = ((uint64_t)out[1] << 32 | out[0]) >> 11;
    return (double)bits * 0x1p-53;
}
