/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The format of the disk tier's files, as functions without I/O.
 *
 * Names. A block's file is named by its id: the high and then the low word, each as 16 lower-case hexadecimal digits,
 * and ".kv". A file that is being written is named "new-", the process's random number and the number of the file, each
 * as 16 such digits, and ".part".
 *
 * Content. A header of 256 bytes (struct disk_header), in format 2 the parts of runs among the block's tokens, then the
 * payload. All numbers are little-endian. The order of the files by last use is the order of their mtime.
 *
 *   offset size
 *        0    8  magic "hobblock"
 *        8    4  format: 1 for a block of tokens alone, 2 for one with parts of runs
 *       12    4  n: tokens of the block, 1 … 32; plus 256 times the KV groups whose parts the payload lacks, a bit for
 *                each (bit 0, of group 0, is never set)
 *       16   16  identity of the model, the KV layout and type, and the arithmetic
 *       32   16  id of the block: high, low; not 0
 *       48   16  id of the parent: high, low; 0: the block is the first one of its sequence
 *       64   16  namespace (namespace.h)
 *       80    4  uid that computed the block
 *       84    4  parts of runs: 0 in format 1; 1 … 32 in format 2
 *       88  128  tokens: 32 numbers of 4 bytes; ITEM_EMBD for those of runs; those from the n-th on are 0
 *      216    8  size of the payload in bytes
 *      224   16  XXH3-128 of the payload, canonical (big-endian)
 *      240   16  XXH3-128 of bytes 0 … 239 and of the parts, canonical: a scan verifies them without reading payloads
 *      256       parts, each of 32 bytes: first token in the block, tokens (4 bytes each), kind, columns (2 bytes
 * each), tokens of the run before the part (4 bytes), digest (16 bytes). They are as items_check wants them: none
 *                begins inside its run, unless it is the first token of the block.
 *                payload: K and V of the block, as the backend's kv_read gives them, group after group
 */
#include "daemon/cache/prefix/prefix.h"

#define DISK_MAGIC       "hobblock"
#define DISK_FORMAT      1
#define DISK_FORMAT_RUNS 2

struct disk_header {
    char magic[8];
    uint32_t format;
    uint32_t n;
    uint8_t identity[16];
    uint64_t id[2], parent[2];
    uint8_t namespace[16];
    uint32_t uid;
    uint32_t n_runs;
    uint32_t tokens[KV_BLOCK];
    uint64_t payload;
    uint8_t payload_sum[16];
    uint8_t sum[16];
};

_Static_assert(sizeof(struct disk_header) == 256, "the file format has a header of 256 bytes");
_Static_assert(offsetof(struct disk_header, tokens) == 88, "the file format has the tokens at byte 88");

/* All that is before the payload. */
struct disk_head {
    struct disk_header header;
    struct item_run runs[KV_BLOCK]; /* [n_runs] as in the file */
};

/* Bytes of a head with @n_runs parts of runs. */
static inline uint64_t disk_head_bytes(uint32_t n_runs)
{
    return sizeof(struct disk_header) + n_runs * sizeof(struct item_run);
}

/* Fills *out for the block of @info; hashes @payload, which has @payload_bytes. Cannot fail. */
void disk_head_make(struct disk_head *out, const uint8_t identity[16], const struct prefix_info *info,
                    const void *payload, uint64_t payload_bytes);

/* The groups whose parts the payload lacks, of a header that may be damaged: 0 for one that makes no sense. */
uint32_t disk_head_lacks(const struct disk_header *h);

/* Checks the head of a file, whose size leaves room for @n_runs parts of runs, against the identity and the size of a
 * payload. NULL: it is valid, and *out is its content, with block KV_NO_BLOCK and on_disk true; the runs of *out are
 * h->runs. Otherwise the defect, static text to follow the file's name, such as "has a damaged header"; *out is
 * undefined. */
const char *disk_head_check(struct prefix_info *out, struct disk_head *h, uint32_t n_runs, const uint8_t identity[16],
                            uint64_t payload_bytes);

struct disk_name {
    char s[48];
};

/* The name of a block's file. */
struct disk_name disk_block_name(struct prefix_id id);
/* The name of a file that is being written. @run: the process's random number; @count: the number of the file. */
struct disk_name disk_part_name(uint64_t run, uint64_t count);

/* Parse a name. True: @name is exactly such a name, and the numbers are set. */
bool disk_block_name_read(const char *name, struct prefix_id *id);
bool disk_part_name_read(const char *name, uint64_t *run, uint64_t *count);
