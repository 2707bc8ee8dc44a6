/* SPDX-License-Identifier: MIT */
#pragma once
/* The body of struct disk, and what disk.c and disk-scan.c share. */
#include "daemon/cache/disk-file.h"
#include "daemon/cache/disk-rate.h"
#include "daemon/cache/disk.h"
#include <pthread.h>
#include <sys/stat.h>

struct disk {
    char *path;
    int dir; /* locked (flock) as long as it is open */
    uint8_t identity[16];
    uint64_t payload, file; /* bytes: of a block; with its header */
    uint64_t run;           /* random: tells our temporary names from those that a crash has left */

    pthread_mutex_t lock; /* of what follows, and of names that come and go in the directory */
    uint64_t bytes_max, reserve;
    uint64_t files, writing; /* blocks there are; temporary ones */
    uint64_t parts;          /* temporary names given out */
    uint64_t written, read, damaged;
    int64_t newest; /* ns: the latest mtime there is */
    struct disk_rate rate;
};

/* @fd is now the last used. What counts is the order, so it is made later than all others, whatever the clock says. */
void disk_stamp(struct disk *d, int fd);
/* The directory knows of an mtime: later ones must be later. Returns it in ns. */
int64_t disk_saw(struct disk *d, const struct timespec *mtime);

/* Open a block that is a file of ours alone, of the right size. A descriptor; -EBADMSG with *wrong ("is …") when it can
 * never be read; -ENOENT; -errno. No sentence. */
int disk_file_open(const struct disk *d, const char *name, struct stat *st, const char **wrong);
/* Read both; false: it is cut short, or the disk cannot read it. Payload may be NULL. */
bool disk_file_read(int fd, struct disk_header *h, void *payload, uint64_t payload_bytes);
/* 0 or -errno. No sentence. */
int disk_file_write(int fd, const struct disk_header *h, const void *payload, uint64_t payload_bytes);

/* Remove a file; was there one that could be? */
bool disk_drop(struct disk *d, struct prefix_id id, bool damaged);

/* A name in the directory. */
struct disk_entry {
    uint64_t inode;
    struct prefix_id id; /* of a part: run and count */
    bool part;
    bool odd; /* not a file */
};

/* All names that are ours, as they are at one moment; counts them anew. *out is the caller's. 0 or -errno with a
 * sentence. */
int disk_list(struct disk *d, struct disk_entry **out, size_t *n);
