/* SPDX-License-Identifier: MIT */
#pragma once
/* Helpers for the tests of the disk tier: a temporary directory, blocks made from a number, and files as bytes. */
#include "daemon/cache/disk/disk.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RIG_PAYLOAD 300
#define RIG_HEADER  256
#define RIG_FILE    (RIG_HEADER + RIG_PAYLOAD)

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

uint64_t rig_random(uint64_t *seed);

/* Block @i: the number determines all its data. */
struct prefix_info rig_info(uint64_t i);
void rig_payload(uint8_t *out, size_t n, uint64_t i);
void rig_same(const struct prefix_info *a, const struct prefix_info *b);

struct disk_config rig_config(const struct place *p); /* no limits */
struct disk *rig_open(const struct disk_config *c);   /* fails the test on an error */

/* disk_write and disk_read of block @i with the payload of rig_payload, which rig_read compares. */
int rig_write(struct disk *d, uint64_t i);
int rig_read(struct disk *d, uint64_t i);
struct disk_stats rig_stats(const struct disk *d);

struct rig_found {
    struct prefix_info infos[1200];
    size_t n;
};

/* Calls disk_scan, which must succeed. The next call overwrites the result. */
const struct rig_found *rig_scan(struct disk *d);

/* The bytes of block @i's file as disk_write makes it. */
void rig_bytes(const struct place *p, uint8_t out[RIG_FILE], uint64_t i);
void rig_put(const char *path, const void *bytes, size_t n);
/* Recomputes the checksum of a header. */
void rig_resum(uint8_t file[RIG_FILE]);
