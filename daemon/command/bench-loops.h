/* SPDX-License-Identifier: MIT */
#pragma once
/* The loops that measure the limits of the machine: no kernel reads or multiplies faster. */
#include <stdint.h>

#define BENCH_CHUNK ((uint32_t)256 << 10) /* bytes that one call of @read reads */
#define BENCH_READS 6                     /* variants: streams, with or without prefetch */

struct bench_loops {
    /* Read a chunk, which is aligned to 64 bytes. The result depends on all of it. */
    uint64_t (*read)(const uint8_t *chunk, unsigned variant);
    /* Multiply and add 8-bit integers, and change *result. Returns the number of operations. NULL behind the last. */
    uint64_t (*multiply[3])(uint64_t *result);
};

/* The loops for the instruction sets that kernels_nth (kernels.h) has on this machine. */
const struct bench_loops *bench_loops(void);
