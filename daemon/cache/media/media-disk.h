/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The embeddings of runs on disk, one file each (media-file.h), in a directory of this daemon alone. Any thread at any
 * time, but for open and close. A file is written under another name and renamed, without fsync; a power failure can
 * leave an incomplete one: its checksums do not match, and it is removed. Errors follow libcommon/error.h; each has a
 * message.
 */
#include "daemon/cache/media/media-table.h"
#include <stdbool.h>

struct media_disk;

struct media_disk_config {
    const char *dir;    /* made if it does not exist */
    uint64_t bytes_max; /* of all files; at most a tenth of the free space in any case */
    uint64_t reserve;   /* free space to leave; at most a twentieth of the file system */
};

struct media_disk_stats {
    uint64_t files, bytes; /* now */
    uint64_t damaged;      /* files removed because of their content, since the start */
};

/* Open and lock the directory, and index its files; those that are incomplete, damaged or not of this user alone are
 * removed, and those with other names stay. 0: the caller calls media_disk_close. -EBUSY: another daemon has it;
 * -EPERM: another user owns it or can write to it; -ENOMEM; -errno. */
int media_disk_open(struct media_disk **out, const struct media_disk_config *c);
struct media_disk *media_disk_close(struct media_disk *d); /* NULL ok, returns NULL */

bool media_disk_has(struct media_disk *d, const struct media_key *key);
/* Set *out, which the caller holds. -ENOENT: there is none; -EBADMSG: the file was damaged or another's, and is
 * removed; -errno. */
int media_disk_read(struct media_disk *d, const struct media_key *key, struct embeddings **out);
/* Write @e for @uid, and remove other files if there is no room. 0, also if it exists; -EDQUOT: it has no room;
 * -errno.
 */
int media_disk_write(struct media_disk *d, const struct media_key *key, uid_t uid, const struct embeddings *e);
void media_disk_stats(struct media_disk *d, struct media_disk_stats *out);
