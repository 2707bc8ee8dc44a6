/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Bytes in groups, so that a trie can say in one word which bytes are below a node, and an automaton in one word which
 * bytes it may read from a state on (stays.h).
 */
#include "daemon/text/grammar/dfa.h"

#define GROUP_TEXT ((uint64_t)1 << 62) /* whole characters above ASCII, in UTF-8; the last one may be cut */
#define GROUP_BAD  ((uint64_t)1 << 63) /* bytes that are no such characters; no automaton's groups have them */

/* The group of an ASCII byte. Those that most classes of characters treat alike are in one group. */
uint64_t byte_group(uint8_t b);
void byte_groups_add(uint64_t groups, struct byte_set *set); /* all bytes that groups have */

/* Where a byte of UTF-8 leaves the decoder: 0 between two characters, UTF8_BAD, or what may follow. */
enum { UTF8_BETWEEN, UTF8_ONE, UTF8_TWO, UTF8_THREE, UTF8_E0, UTF8_ED, UTF8_F0, UTF8_F4, UTF8_BAD };
unsigned utf8_next(unsigned at, uint8_t b);

/* The groups whose characters are each a string of @q. 0 or the error of @d. */
int byte_groups_counted(struct dfa *d, uint32_t q, uint64_t *groups);
