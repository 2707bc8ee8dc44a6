/* SPDX-License-Identifier: MIT */
#pragma once
/* The rights of a decoder: its memory, and the two pipes that it has. It opens, creates and reaches nothing. */
#include <stdint.h>

#define DECODER_MEMORY (1ull << 30) /* bytes of address space, beside the file */
#define DECODER_CPU    30           /* seconds */

/* Limit the memory of this process to DECODER_MEMORY + @file_bytes, its time to DECODER_CPU, and everything else to
 * nothing; it ends with its parent. Under memory pressure the kernel kills it first. 0 or -errno; sets the error
 * message. */
int confine_limits(uint64_t file_bytes);

/* Allow this process, which has one thread, only to read standard input, to write standard output, and to use its
 * memory. Any other system call kills it; only sysinfo, and opening for reading without
 * O_CLOEXEC, fail with EPERM. 0 or -errno; sets the error message. */
int confine_calls(void);
