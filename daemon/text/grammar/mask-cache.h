/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Parts of masks, by the expression that they belong to, for all grammars with one vocabulary: strings and numbers of
 * different schemas are the same expressions. A key is the space (grammar.h) and the whole expression, written out, so
 * that nobody learns from the time of a mask about the constraints of another space. At a limit in bytes the least
 * recently used part of the owner (grammar-memory.h) whose parts take most is evicted, so that nobody's many parts
 * evict those of an owner with few. Any thread may use a cache.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MASK_CACHE_BYTES ((size_t)48 << 20)

struct grammar_memory;
struct mask_part;
struct mask_cache;

int mask_cache_new(struct mask_cache **out); /* 0 or -ENOMEM: sets the error message; the caller owns *out */
struct mask_cache *mask_cache_free(struct mask_cache *c); /* NULL ok, returns NULL */

/* The part with this key, held for the caller; or NULL. */
struct mask_part *mask_cache_get(struct mask_cache *c, const char *key, size_t n);
/* Keeps @part, which the caller also holds, unless memory lacks. */
void mask_cache_put(struct mask_cache *c, const char *key, size_t n, struct mask_part *part);
/* Evicts the least recently used part that is charged to @m. False: there is none. */
bool mask_cache_evict(struct mask_cache *c, struct grammar_memory *m);
