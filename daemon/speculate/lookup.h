/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An index of a text of tokens that finds the longest match of a text's end, and the tokens that followed there. This
 * is the lookup of SuffixDecoding (https://arxiv.org/abs/2411.04975): the places with the longest match vote on each
 * next token. In place of a suffix tree there are chains of hashes, as in compressors of the LZ77 family: for each
 * context of LOOKUP_SHORT and of LOOKUP_LONG tokens the place before it with the same hash. So a token is added in
 * constant time, the oldest tokens leave without any work, and a token takes LOOKUP_TOKEN_BYTES; the nodes of a suffix
 * tree take about 150 bytes and it cannot forget. The index has room for a power of two of tokens, less than twice as
 * many as it has. A search looks at the latest LOOKUP_PLACES places of a chain
 * and compares their tokens, so hashes that collide cannot make a match.
 *
 * Not for several threads.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOKUP_SHORT       2
#define LOOKUP_LONG        6
#define LOOKUP_LONGEST     32 /* tokens of a match that count */
#define LOOKUP_PLACES      8
#define LOOKUP_NEAR        24 /* tokens after an expected place that are searched for it */
#define LOOKUP_TOKEN_BYTES 20

struct lookup;

/* Places where the end of a text also is. A place is the number of tokens before the one that followed. */
struct lookup_match {
    uint32_t length; /* tokens that are equal; 0: there is no match */
    bool near;       /* it is near the expected place: the text is a copy with changes */
    uint32_t n;
    uint32_t places[LOOKUP_PLACES]; /* [n] the best first */
};

/* An empty index that keeps the last @most tokens. 0 or -ENOMEM; the caller owns *out. */
int lookup_new(struct lookup **out, uint32_t most);
struct lookup *lookup_free(struct lookup *l); /* NULL ok, returns NULL */

/* Append @ids [n]. A negative id is no token: no match reaches over it. -ENOMEM: the first tokens may be appended. */
int lookup_push(struct lookup *l, const int32_t *ids, uint32_t n);
/* Tokens that were appended, ever; the last of them are kept. */
uint32_t lookup_end(const struct lookup *l);
size_t lookup_bytes(const struct lookup *l);

/* Find the end of @ids [n], which may be the end of the index itself. @near: a place where the next token is expected,
 * UINT32_MAX: none. */
void lookup_find(const struct lookup *l, const int32_t *ids, uint32_t n, uint32_t near, struct lookup_match *out);

/* Write to @ids the tokens that followed at @m, at most @max, and to @share the part of the remaining places that agree
 * on each. @own: the text that was looked for is the index's own, so that it may continue into the written tokens.
 * Returns how many. */
uint32_t lookup_follow(const struct lookup *l, const struct lookup_match *m, bool own, int32_t *ids, float *share,
                       uint32_t max);
