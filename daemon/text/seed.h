/* SPDX-License-Identifier: MIT */
#pragma once
#include <stdint.h>

/*
 * A seed for hash tables whose keys a file provides, drawn by the kernel for this process: nobody can write a file
 * whose keys all fall on one slot. The order of such a table must not show in any result.
 */
uint64_t hash_seed(void);
