/* SPDX-License-Identifier: MIT */
#pragma once
/* The large pieces of memory of a model. */
#include <stdbool.h>
#include <stddef.h>

/* An anonymous mapping of @n > 0 zero bytes, @what for the message ("the weights"). More than the machine can give is
 * refused at once, rather than by the kernel in the middle of an answer. @lazy: much of it may never be touched. 0 and
 * *out, whose owner calls munmap; or -ENOMEM with a sentence that says how many bytes for what. */
int memory_map(void **out, size_t n, bool lazy, const char *what);
