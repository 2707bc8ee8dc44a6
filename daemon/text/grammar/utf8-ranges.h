/* SPDX-License-Identifier: MIT */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The UTF-8 encodings of a range of code points, as sequences of byte ranges. */
struct utf8_sequence {
    uint8_t first[4], last[4];
    unsigned n;
};

#define UTF8_SEQUENCES_MAX 32

/* Splits @first to @last (inclusive, <= 0x10FFFF) without the surrogates. Returns the count, at most
 * UTF8_SEQUENCES_MAX. The sequences exclude each other. */
size_t utf8_ranges(uint32_t first, uint32_t last, struct utf8_sequence out[UTF8_SEQUENCES_MAX]);
