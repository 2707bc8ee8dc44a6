/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What a file of the disk tier looks like, as pure functions. Its name is the id's 32 hex digits and ".kv"; in it are
 * struct disk_header, and behind that the payload. All numbers are little-endian.
 */
#include "daemon/cache/prefix.h"

#define DISK_MAGIC  "hobblock"
#define DISK_FORMAT 1

struct disk_header {
    char magic[8];
    uint32_t format;
    uint32_t n; /* tokens, 1 … 32 */
    uint8_t identity[16];
    uint64_t id[2], parent[2]; /* high, low */
    uint8_t space[16];
    uint32_t uid;
    uint32_t zero;
    uint32_t tokens[PREFIX_BLOCK]; /* behind the n-th: 0 */
    uint64_t payload;              /* bytes */
    uint8_t payload_sum[16];       /* XXH3-128 (canonical) of the payload */
    uint8_t sum[16];               /* of all the above: a scan can trust a header without reading the payload */
};

_Static_assert(sizeof(struct disk_header) == 256, "the layout of the file");

/* The header of the file that holds @info's block; hashes @payload. */
void disk_header_make(struct disk_header *out, const uint8_t identity[16], const struct prefix_info *info,
                      const void *payload, uint64_t payload_bytes);

/* NULL and *out (without block, on disk), or what is wrong with a header that was read: "is …" */
const char *disk_header_check(struct prefix_info *out, const struct disk_header *h, const uint8_t identity[16],
                              uint64_t payload_bytes);

struct disk_name {
    char s[48];
};

struct disk_name disk_block_name(struct prefix_id id);
/* While it is being written. @run: which process; @count: which of its files. */
struct disk_name disk_part_name(uint64_t run, uint64_t count);

/* Is it exactly such a name, and whose? */
bool disk_block_name_read(const char *name, struct prefix_id *id);
bool disk_part_name_read(const char *name, uint64_t *run, uint64_t *count);
