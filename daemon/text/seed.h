/* SPDX-License-Identifier: MIT */
#pragma once
#include <stdint.h>

/*
 * A seed for hash tables whose keys come from a file. The kernel draws it for this process, so nobody can write a file
 * whose keys all collide. The order of such a table must not influence any result.
 */
uint64_t hash_seed(void);
