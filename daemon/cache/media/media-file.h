/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The files of embeddings on disk. A name is media_name of the key, the high word first, each as 16 lower-case
 * hexadecimal digits, and ".embd"; a file that is being written has ".part" instead. The order of the files by last use
 * is that of their mtime. All numbers are little-endian.
 *
 *   offset size
 *        0    8  magic "hobembed"
 *        8    4  format: 1
 *       12    4  uid that computed them
 *       16   32  key: namespace, digest of the run
 *       48    4  embeddings
 *       52    4  values of an embedding
 *       56    8  zero
 *       64   16  XXH3-128 of the values, canonical (big-endian)
 *       80   16  XXH3-128 of bytes 0 … 79, canonical
 *       96       values (f32)
 */
#include "daemon/cache/media/media-table.h"
#include <stdbool.h>

#define MEDIA_FILE_FORMAT 1
#define MEDIA_VALUES_MAX  (1u << 28) /* of a file */

struct media_file_header {
    char magic[8];
    uint32_t format, uid;
    struct media_key key;
    uint32_t n, dim;
    uint64_t zero;
    uint8_t values_sum[16], sum[16];
};

_Static_assert(sizeof(struct media_file_header) == 96, "the file format has a header of 96 bytes");

struct media_file_name {
    char s[40];
};

struct media_file_name media_file_name(const uint64_t name[2]);
struct media_file_name media_part_name(const uint64_t name[2]);
/* True: it is exactly the name of a file (*part: of one that is being written). */
bool media_file_name_read(const char *s, uint64_t name[2], bool *part);

/* Bytes of a file. */
uint64_t media_file_bytes(uint32_t n, uint32_t dim);

/* Write a file of @fd, which is empty. 0 or -errno, without a message. */
int media_file_write(int fd, const struct media_key *key, uid_t uid, const struct embeddings *e);
/* Read the header of a file of @size bytes, or the values after a valid header into a new *out. 0; -EBADMSG: the file
 * has a defect, and *wrong is static text that follows the name; -ENOMEM or -errno: nothing is known of the file. All
 * without a message. */
int media_file_header_read(int fd, uint64_t size, struct media_file_header *out, const char **wrong);
int media_file_values_read(int fd, const struct media_file_header *h, struct embeddings **out, const char **wrong);
