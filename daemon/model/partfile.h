/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Files of a cache: written under NAME.part and renamed when whole, so that a reader never sees half of one. The writer
 * holds a lock on the .part; one without a lock is what a crash has left.
 */
#include <sys/stat.h>

#define PARTFILE_SUFFIX ".part"

struct partfile {
    int dir, fd; /* -1: none; fd is open for writing */
    char name[128];
};

#define PARTFILE_INIT                                                                                                  \
    {                                                                                                                  \
        .dir = -1, .fd = -1                                                                                            \
    }

/* An empty DIR/NAME.part of ours. 0; 1 when somebody else is writing it now; or -errno with a sentence. */
int partfile_begin(struct partfile *p, const char *dir, const char *name);
/* On the disk, then in place of what was there. 0, or -errno with a sentence; partfile_end is needed in both cases. */
int partfile_commit(struct partfile *p);
/* Takes back what was not committed. Once more does no harm. */
void partfile_end(struct partfile *p);

/* Remove DIR/NAME, a .part, unless its writer is at work. */
void partfile_sweep(int dir, const char *name);

/* A file of the cache for reading, with its *st: regular, ours, and writable by nobody else. Its descriptor, or -errno
 * without a sentence. */
int partfile_open(const char *dir, const char *name, struct stat *st);
