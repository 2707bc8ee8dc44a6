/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Memory that runs out. In a test with memory_dep the linker sends the calls of hob to malloc, calloc, realloc,
 * reallocarray and strdup here (--wrap); calls inside other libraries are not replaced. Any thread may call. Memory
 * that is reallocated always moves.
 */
#include <stdbool.h>
#include <stddef.h>

/* The allocation behind the next @n fails, and no other. */
void memory_fail(unsigned long n);
/* The next malloc of exactly @size bytes fails, and no other. */
void memory_fail_size(size_t size);
/* None fails from now on. True: one did. */
bool memory_end(void);

/* For an allocator that a test replaces itself: count an allocation. True: it is the one that fails. */
bool memory_fails(void);
