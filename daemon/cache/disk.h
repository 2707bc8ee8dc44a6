/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The disk tier: one file a KV block in the model's cache directory, a header (struct in disk.c), the payload, and the
 * XXH3-128 of both. Files are written under a temporary name and renamed, without fsync: a torn one is recognized and
 * removed, it is a cache. Which files there are and which may go is the prefix index's knowledge; here are only the
 * files, the budget and the rate. All functions may be called from any thread, at once.
 */
#include "daemon/cache/prefix.h"
#include <stdatomic.h>

struct disk;

struct disk_config {
    const char *dir;         /* made when missing; must be ours and writable by nobody else */
    uint8_t identity[16];    /* of the model, KV layout and type, arithmetic: files of others are removed */
    uint64_t payload;        /* bytes of a block */
    uint64_t bytes_max;      /* of all files; besides never more than a tenth of the space that is free */
    uint64_t reserve;        /* bytes of the file system that stay free; a twentieth of it, if that is less */
    uint64_t bytes_a_minute; /* written, but for disk_write(urgent); 0: no limit */
};

/* Takes the directory's lock: -EBUSY with a sentence that names the directory when another daemon has it. Other errors
 * (-EACCES, -EROFS, -EPERM for a directory that is not ours, …) with a sentence too; the daemon goes on without. */
int disk_open(struct disk **out, const struct disk_config *c);
struct disk *disk_close(struct disk *d); /* NULL ok, returns NULL */

/* Every good file there is when it begins, in the order of last use (mtime; a clock that was wrong does no harm to it),
 * headers checked (the payload is, when it is read). What has a block's name but is torn, of another version or
 * identity, or not a file of ours alone, and temporary files that a crash left, are removed, with one warning in all;
 * other names stay. @found, called in this thread, returns false when the file shall be removed too (its parent is
 * missing). 0, or -errno with a sentence; -ECANCELED when *stop (which may be NULL). */
int disk_scan(struct disk *d, bool (*found)(void *ctx, const struct prefix_info *info), void *ctx,
              const atomic_bool *stop);

/* Is there room in budget and rate for one more? 0; 1: a file must go first (disk_remove one and ask again; also when
 * the free space has shrunk); 2: not now, the rate is used up; -ENOSPC: a tenth of the free space (with our own files
 * counted as free), what is free beyond the reserve, or bytes_max holds not even one; -errno. @urgent: the rate does
 * not count (the flush at exit). Asking takes nothing, so a thread that was faster may have it. The rate is a bucket of
 * one minute's worth, full at the start. */
int disk_room(struct disk *d, bool urgent);
/* How many more files there are than there may be, since less is allowed or free: so many have to go, whether or not
 * one comes. */
uint64_t disk_excess(struct disk *d);

/* Another bytes_max and reserve: when less is allowed, files go as room is asked for. */
void disk_limit(struct disk *d, uint64_t bytes_max, uint64_t reserve);

/* Write the block of @info; @payload has config.payload bytes. 0 or -errno with a sentence (nothing is left then);
 * -EDQUOT when disk_room would not have said 0 or 2. A process that may run under a limit on file sizes ignores
 * SIGXFSZ. */
int disk_write(struct disk *d, const struct prefix_info *info, const void *payload);

/* Read it back: everything in the header must be as in @info, and the checksum right. 0; -ENOENT; -EBADMSG with a
 * sentence (the file is removed); -errno. On 0 the file becomes the youngest; else @payload holds anything. */
int disk_read(struct disk *d, const struct prefix_info *info, void *payload);

void disk_remove(struct disk *d, struct prefix_id id);

struct disk_sum {
    uint64_t files, bytes, written, read; /* written, read: bytes since the start */
    uint64_t damaged;                     /* files that were removed for what was in them */
};

void disk_count(const struct disk *d, struct disk_sum *out);
