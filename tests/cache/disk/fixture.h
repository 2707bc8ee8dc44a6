/* SPDX-License-Identifier: MIT */
#pragma once
/* Helpers for the tests of the disk tier: a temporary directory, blocks made from a number, and files as bytes. */
#include "daemon/cache/disk/disk.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FIXTURE_PAYLOAD 300
#define FIXTURE_HEADER  256
#define FIXTURE_FILE    (FIXTURE_HEADER + FIXTURE_PAYLOAD)

struct place {
    char dir[128]; /* exists, empty, mode 0700 */
};

int place_setup(void **state);    /* *state is a struct place */
int place_teardown(void **state); /* removes the directory with its content */

/* The path of @name in the directory. The last four results are valid. */
const char *place_path(const struct place *p, const char *name);
const char *block_path(const struct place *p, const struct prefix_info *info);
/* The number of names in the directory that end with @suffix. */
size_t place_count(const struct place *p, const char *suffix);

uint64_t fixture_random(uint64_t *seed);

/* Block @i: the number determines all its data. */
struct prefix_info fixture_info(uint64_t i);
void fixture_payload(uint8_t *out, size_t n, uint64_t i);
void fixture_same(const struct prefix_info *a, const struct prefix_info *b);

struct disk_config fixture_config(const struct place *p); /* no limits */
struct disk *fixture_open(const struct disk_config *c);   /* fails the test on an error */

/* disk_write and disk_read of block @i with the payload of fixture_payload, which fixture_read compares. */
int fixture_write(struct disk *d, uint64_t i);
int fixture_read(struct disk *d, uint64_t i);
struct disk_stats fixture_stats(const struct disk *d);

struct fixture_found {
    struct prefix_info infos[1200];
    size_t n;
};

/* Calls disk_scan, which must succeed. The next call overwrites the result. */
const struct fixture_found *fixture_scan(struct disk *d);

/* The bytes of block @i's file as disk_write makes it. */
void fixture_bytes(const struct place *p, uint8_t out[FIXTURE_FILE], uint64_t i);
void fixture_put(const char *path, const void *bytes, size_t n);
/* Recomputes the checksum of a header. */
void fixture_resum(uint8_t header[FIXTURE_HEADER]);
