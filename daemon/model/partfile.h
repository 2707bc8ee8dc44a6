/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Files of a cache: written as NAME.part and renamed when complete, so that a reader never sees a partial file. The
 * writer holds a lock on the .part file; one without a lock is left from a crash.
 */
#include <stdbool.h>
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

/* Create DIR/NAME.part, empty and locked. 0; 1 if another process is writing it; or -errno and the error message. */
int partfile_begin(struct partfile *p, const char *dir, const char *name);
/* Sync the file and rename it to NAME. 0, or -errno and the error message. The caller calls partfile_end in both cases.
 */
int partfile_commit(struct partfile *p);
/* Remove the file if it was not committed, and close it. May be called twice. */
void partfile_end(struct partfile *p);

/* Remove DIR/NAME, a .part file, unless a writer holds its lock. */
void partfile_sweep(int dir, const char *name);

/* Open a file of the cache for reading, and fill *st. It must be a regular file, owned by this user and writable by no
 * other. Returns the descriptor, or -errno without an error message. */
int partfile_open(const char *dir, const char *name, struct stat *st);
/* Whether the error @r of partfile_open says that there is no such file, or one that is not ours. */
bool partfile_is_none(int r);
