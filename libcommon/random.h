/* SPDX-License-Identifier: MIT */
#pragma once
#include <stddef.h>

/* Fill @out with @n <= 256 random bytes of the kernel. 0, or -errno: -EIO if there were fewer. */
int random_fill(void *out, size_t n);
