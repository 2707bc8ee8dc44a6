/* SPDX-License-Identifier: MIT */
#pragma once
/* Kernels of kernels/cuda, translated for the CPU, as the fake driver starts them: by one thread at a time. */
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_kernel_of;

/* A kernel by name, of the code for sm_80 or sm_90a (80 or 90); NULL: there is none. */
struct emulated_kernel_of *emulated_find(const char *name, int architecture);
/* Bytes of its argument. */
size_t emulated_bytes(const struct emulated_kernel_of *k);
/* It may have so much dynamic shared memory. False: the device has less. */
int emulated_allow(struct emulated_kernel_of *k, int bytes);
/* Run it: CTAs of x by y with so many threads. False: the device refuses that. A fault ends the program. */
int emulated_run(const struct emulated_kernel_of *k, unsigned x, unsigned y, unsigned threads, unsigned shared,
                 const void *argument);
/* The order of warps and lanes between the points where they wait for each other: 0: as their numbers are; 1: turned
 * round; else @order begins a random one. */
void emulated_order(unsigned order);
/* The CPU has the instructions that the kernels were translated to. */
int emulated_supported(void);

#ifdef __cplusplus
}
#endif
