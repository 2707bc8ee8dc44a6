/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The files of the disk tier: one file for each KV block, in the model's cache directory. disk-file.h describes the
 * format of a file. The prefix index knows which files exist and which one to remove next; this part reads, writes and
 * removes files, and keeps the budget and the write rate. A file counts with its bytes, rounded up to what file systems
 * allocate, but with no more than header and whole payload: parts of runs, 1 KiB at most, do not count then. A file is
 * written under a temporary name and renamed, without fsync. A power failure can leave an incomplete file: its
 * checksums do not match, and it is removed. All functions can be called from any thread at any time, except
 * disk_close. Errors follow libcommon/error.h; each has a message.
 */
#include "daemon/cache/prefix/prefix.h"
#include <stdatomic.h>

struct disk; /* opaque; body in disk-state.h */

#define DISK_UNIT 4096u /* what a file system allocates at least for a file that is not empty */

/* All sizes are in bytes. */
struct disk_config {
    const char *dir;      /* made if it does not exist; must belong to this user and be writable by nobody else */
    uint8_t identity[16]; /* of model, KV layout and type, and arithmetic; files with another one are removed */
    uint64_t payload;     /* size of a block's K and V, in all KV groups */
    uint64_t parts[KV_GROUPS_MAX]; /* sizes of the parts of the payload that a file may lack (struct prefix_info); 0:
                                    * none. Part 0 is in every file */
    uint64_t unit;                 /* a file counts as a multiple of it; 0: with its bytes */
    uint64_t bytes_max;            /* size of all files, without runs; at most a tenth of the free space in any case */
    uint64_t reserve;              /* free space to leave on the file system; at most a twentieth of the file system */
    uint64_t bytes_a_minute;       /* rate of writes that are not urgent; 0: no limit */
};

/*
 * Opens the directory and locks it (flock). 0: *out is the caller's, who calls disk_close; *c can be freed. -EBUSY:
 * another daemon has the lock. -EPERM: another user owns the directory or can write to it. -EINVAL: the
 * payload is too large for a file. -ENOMEM. Other -errno of the file system, such as -EACCES and -EROFS. On an error
 * *out is untouched.
 */
int disk_open(struct disk **out, const struct disk_config *c);
/* Unlocks the directory, frees @d and returns NULL. @d may be NULL. No other call may be running. */
struct disk *disk_close(struct disk *d);

/*
 * Calls @found, in this thread, for each valid file that exists at the start of the scan, in the order of last use
 * (mtime), the least recent first. The runs in *info are valid until it returns, unless @found takes them over: it sets
 * info->runs to NULL, and frees them later. The scan checks headers; disk_read checks payloads. It removes each file
 * that has the name of a block but is truncated, damaged, of another format or identity, or not a regular file of this
 * user alone. It also removes temporary files of earlier processes. One warning in the log counts the removed blocks.
 * Files with other names stay. When @found returns false, the scan removes the file. 0; -ECANCELED when *stop becomes
 * true (@stop may be NULL); -ENOMEM; -errno.
 */
int disk_scan(struct disk *d, bool (*found)(void *ctx, struct prefix_info *info), void *ctx, const atomic_bool *stop);

/*
 * Checks budget and rate for one more file; reserves nothing.
 *   0        a file can be written
 *   1        a file must be removed first: remove one and ask again (also when the free space has become less)
 *   2        not now: the rate is used up
 *   -ENOSPC  not even one file fits into bytes_max, a tenth of the free space, or the free space beyond the reserve
 *            (the tier's own files count as free space)
 *   -errno   of statvfs
 * @urgent ignores the rate, for the writes at exit. The rate is a token bucket that holds the tokens of one minute and
 * is full at the start.
 */
int disk_room(struct disk *d, bool urgent);
/* The number of files to remove at least so that the budget holds, because bytes_max or the free space has become less.
 * Ask again when they are removed: they may have been small. */
uint64_t disk_excess(struct disk *d);

/* Sets bytes_max and reserve. A lower limit removes nothing by itself: see disk_excess. */
void disk_limit(struct disk *d, uint64_t bytes_max, uint64_t reserve);

/* Writes the block of @info; @payload has config.payload bytes, less those of the parts in info->lacks, and stays the
 * caller's. A file of the block that exists is replaced. 0; -EDQUOT when the budget has
 * no room for it; -errno. On an error no file is left. A process that can run under a limit on file sizes must ignore
 * SIGXFSZ. */
int disk_write(struct disk *d, const struct prefix_info *info, const void *payload);

/* Reads the block of @info into @payload: as many bytes as disk_write took. Checks that the header matches all fields
 * of *info, and both checksums. 0: the file becomes the most recently used one. -ENOENT: no such file. -EBADMSG: the
 * file is damaged or another block's, and is removed. -errno. On an error the content of @payload is undefined. */
int disk_read(struct disk *d, const struct prefix_info *info, void *payload);

/* Removes the block's file, if it exists. */
void disk_remove(struct disk *d, struct prefix_id id);

struct disk_stats {
    uint64_t files, bytes;  /* on disk now */
    uint64_t written, read; /* bytes since disk_open */
    uint64_t damaged;       /* files that were removed because of their content, since disk_open */
};

/* Copies the statistics into *out. */
void disk_stats_get(const struct disk *d, struct disk_stats *out);
