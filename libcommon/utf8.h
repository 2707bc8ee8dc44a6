/* SPDX-License-Identifier: MIT */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Offset of the first byte that is not part of valid UTF-8 (RFC 3629: no overlongs, no surrogates), or @n. */
size_t utf8_check(const char *s, size_t n);

/* Length of the longest prefix of s[0..n) that does not end inside a character that later bytes could complete.
 * Invalid bytes count as whole: only a truncated but so far valid tail is left out. */
size_t utf8_whole(const char *s, size_t n);

/* Decode one character; returns its length, or 0 when s[0..n) does not begin with a valid one. */
size_t utf8_decode(const char *s, size_t n, uint32_t *cp);

/* Encode @cp (<= 0x10FFFF) into @out[4]; returns the length. */
size_t utf8_encode(char *out, uint32_t cp);
