/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The size and digest of files that were decoded, so that a file that comes again needs no decoder. It holds a fixed
 * number of facts; a new one may replace another. Any thread.
 */
#include "daemon/cache/media/media-table.h"
#include "daemon/media/media.h"
#include <stdbool.h>

struct media_memo;

struct media_fact {
    enum media_kind kind;
    uint32_t width, height;
    uint64_t samples;
    uint8_t digest[MEDIA_DIGEST];
};

int media_memo_new(struct media_memo **out);              /* 0 or -ENOMEM */
struct media_memo *media_memo_free(struct media_memo *m); /* NULL ok, returns NULL */

/* @key: a namespace, and the digest of a file's bytes by media_file_digest. False: not known. */
bool media_memo_find(struct media_memo *m, const struct media_key *key, struct media_fact *out);
void media_memo_add(struct media_memo *m, const struct media_key *key, const struct media_fact *fact);

/* XXH3-128. */
void media_file_digest(const uint8_t *data, size_t n, uint8_t out[16]);
