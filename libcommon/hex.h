/* SPDX-License-Identifier: MIT */
#pragma once
/* Bytes as lower-case hexadecimal digits, two for each byte. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Write 2 * @n digits and a NUL to @out. */
void hex_write(char *out, const uint8_t *bytes, size_t n);
/* Read 2 * @n digits from @s, which may continue after them. False: a character is not a lower-case digit (NUL
 * included; nothing is read after it), and @out is undefined. */
bool hex_read(uint8_t *out, const char *s, size_t n);
