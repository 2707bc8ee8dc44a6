/* SPDX-License-Identifier: MIT */
#pragma once
/* The large pieces of memory of a model. */
#include <stdbool.h>
#include <stddef.h>

/* Make an anonymous mapping of @n > 0 zero bytes. A size above the available memory is refused at once, because the
 * kernel would otherwise kill the process later. @lazy: much of it may never be touched. @what: purpose, for the error
 * message ("the weights"). Returns 0 and *out, whose owner calls munmap; or -ENOMEM and an error message with the bytes
 * and the purpose. */
int memory_map(void **out, size_t n, bool lazy, const char *what);
