/* SPDX-License-Identifier: MIT */
#pragma once
/* Numbers as people write them: SIZE (512M, 4G, powers of 1024), TIME (500ms, 30s, 15min, 1h), counts, real numbers.
 * All parsers refuse empty text, an unexpected sign, trailing text and overflow, with error_say(-EINVAL, …). */
#include <stdint.h>

int parse_size(const char *s, uint64_t *bytes);
int parse_time(const char *s, uint64_t *usec); /* a plain number is seconds */
int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *v);
int parse_float(const char *s, float min, float max, float *v);

/* Write "1.2G", "512M", … to @out (at least 16 bytes); returns @out. */
char *format_size(char *out, uint64_t bytes);
