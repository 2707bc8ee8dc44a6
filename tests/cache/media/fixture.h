/* SPDX-License-Identifier: MIT */
#pragma once
/* Embeddings on disk in a temporary directory; a number determines the content of a file. */
#include "daemon/cache/media/media-disk.h"
#include "tests/libcommon/check.h"

enum { N = 4, DIM = 25, FILE_BYTES = 96 + N * DIM * 4 };

struct place {
    char dir[40], sub[48]; /* of the test; of the media, which media_disk_open makes */
};

int place_setup(void **state); /* *state is a struct place */
int place_teardown(void **state);

struct media_disk *fixture_open(void **state, uint64_t files); /* with room for so many; fails the test on an error */
struct media_key fixture_key(uint32_t number);
/* media_disk_write and media_disk_read of file @number, whose values fixture_get compares. */
int fixture_put(struct media_disk *d, uid_t uid, uint32_t number);
int fixture_get(struct media_disk *d, uint32_t number);
struct media_disk_stats fixture_stats(struct media_disk *d);
void fixture_path(void **state, uint32_t number, char out[128]);
