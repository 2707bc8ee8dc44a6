/* SPDX-License-Identifier: MIT */
#pragma once
/* The body of struct disk and the functions that the disk-*.c files share; private to this folder. */
#include "daemon/cache/disk/disk-file.h"
#include "daemon/cache/disk/disk-rate.h"
#include "daemon/cache/disk/disk.h"
#include <pthread.h>
#include <sys/stat.h>

struct disk {
    char *path;
    int dir; /* has the lock (flock) while it is open */
    uint8_t identity[16];
    uint64_t payload;                    /* bytes of a block with all parts */
    uint64_t parts_bytes[KV_GROUPS_MAX]; /* as in struct disk_config */
    uint64_t unit;                       /* as in struct disk_config, but at least 1 */
    uint64_t file;                       /* what a block with its header and all parts counts, without runs */
    uint64_t run; /* random; distinguishes the temporary files of this process from those of earlier ones */

    /* Protects all members below, and the creation and removal of names in the directory. */
    pthread_mutex_t lock;
    uint64_t bytes_max, reserve;
    uint64_t files, bytes;  /* blocks on disk, and their bytes: of none more than @file */
    uint64_t writing, owed; /* blocks that are being written; bytes that the rate does not count yet */
    uint64_t parts;         /* temporary names used so far */
    uint64_t written, read, damaged;
    bool astray;           /* @files and @bytes are wrong: somebody else has removed or changed a file */
    uint64_t recount_next; /* us; not before */
    int64_t newest;        /* the latest mtime of all files, in ns */
    struct disk_rate rate;
};

/* Makes the file the most recently used one: gives it an mtime after those of all other files. The clock can have been
 * set back; only the order counts. */
void disk_stamp(struct disk *d, int fd);
/* Records the mtime of a file, so that disk_stamp sets later ones. Returns it in ns. */
int64_t disk_saw(struct disk *d, const struct timespec *mtime);

/* Opens a block's file and checks that it is a regular file of this user alone with a possible size. Returns a
 * descriptor of the caller's and *st; -EBADMSG and *wrong (as disk_head_check returns it) when the file can never be
 * read; -ENOENT; -errno. Sets no error text. */
int disk_file_open(const struct disk *d, const char *name, struct stat *st, const char **wrong);
/* The bytes of a payload without the parts in @lacks (as in struct prefix_info). */
uint64_t disk_payload_bytes(const struct disk *d, uint32_t lacks);
/* The parts of runs for which the size of an opened file leaves room, if its payload lacks the parts @lacks;
 * UINT32_MAX: it has another size. */
uint32_t disk_file_runs(const struct disk *d, const struct stat *st, uint32_t lacks);
/* What a file of @bytes counts for the budget, without a limit. */
static inline uint64_t disk_rounded(const struct disk *d, uint64_t bytes)
{
    return (bytes + d->unit - 1) / d->unit * d->unit;
}
/* The bytes that a file counts for the budget. They depend on its size only, not on what the file system has allocated
 * so far, so that they are the same when it is removed. */
static inline uint64_t disk_file_counts(const struct disk *d, const struct stat *st)
{
    const uint64_t bytes = disk_rounded(d, (uint64_t)st->st_size);
    return bytes < d->file ? bytes : d->file;
}
/* Reads the head, with @n_runs parts of runs, and the payload (NULL: only the head). False: the file is truncated or
 * the disk cannot read it. */
bool disk_file_read(int fd, struct disk_head *h, uint32_t n_runs, void *payload, uint64_t payload_bytes);
/* Writes head and payload. 0 or -errno. Sets no error text. */
int disk_file_write(int fd, const struct disk_head *h, uint32_t n_runs, const void *payload, uint64_t payload_bytes);

/* Removes a block's file; counts it as damaged with @damaged. True: the file existed and is removed. */
bool disk_drop(struct disk *d, struct prefix_id id, bool damaged);

/* A name in the directory: of a block, or of a file that was being written. */
struct disk_entry {
    uint64_t inode;
    struct prefix_id id; /* with @part: run and count */
    bool part;
    bool odd; /* not a regular file */
};

/* If @astray, count the files and their bytes anew, but not a short time after the last count, so that counting takes
 * little of the time. The lock is held. */
void disk_recount(struct disk *d);

/* Lists all names of blocks and temporary files at one moment, and sets the count of files. 0: the caller frees *out.
 * -errno: *out is NULL. */
int disk_list(struct disk *d, struct disk_entry **out, size_t *n);
