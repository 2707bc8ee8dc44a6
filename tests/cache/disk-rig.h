/* SPDX-License-Identifier: MIT */
#pragma once
/* What the tests of the disk tier share: a directory of their own, blocks that are made from a number, and the files
 * as bytes. */
#include "daemon/cache/disk.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RIG_PAYLOAD 300
#define RIG_HEADER  256
#define RIG_FILE    (RIG_HEADER + RIG_PAYLOAD)

struct place {
    char dir[128]; /* there, empty, 0700 */
};

int place_setup(void **state);    /* *state is a struct place */
int place_teardown(void **state); /* with all that is in it */

/* The path of a name in it; valid until the next call but three. */
const char *place_path(const struct place *p, const char *name);
const char *block_path(const struct place *p, const struct prefix_info *info);
/* Names in it that end so ("": all). */
size_t place_count(const struct place *p, const char *suffix);

uint64_t rig_random(uint64_t *seed);

/* Block @i: everything about it follows from the number. */
struct prefix_info rig_info(uint64_t i);
void rig_payload(uint8_t *out, size_t n, uint64_t i);
void rig_same(const struct prefix_info *a, const struct prefix_info *b);

struct disk_config rig_config(const struct place *p); /* no limits */
struct disk *rig_open(const struct disk_config *c);   /* or the test fails */

/* With the payload of rig_payload, which rig_read wants to see again; both as disk_write, disk_read. */
int rig_write(struct disk *d, uint64_t i);
int rig_read(struct disk *d, uint64_t i);
struct disk_sum rig_sum(const struct disk *d);

struct rig_found {
    struct prefix_info infos[1200];
    size_t n;
};

/* disk_scan must succeed. The result is overwritten by the next one. */
const struct rig_found *rig_scan(struct disk *d);

/* Bytes of block @i's file as disk_write makes it. */
void rig_bytes(const struct place *p, uint8_t out[RIG_FILE], uint64_t i);
void rig_put(const char *path, const void *bytes, size_t n);
/* Make the sum of a header right again. */
void rig_resum(uint8_t file[RIG_FILE]);
