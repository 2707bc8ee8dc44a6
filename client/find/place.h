/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Where an index lies: $XDG_CACHE_HOME/hob/index/HASH, HASH the 16 hex digits of XXH3-64 of the folder's path. It has
 * mode 0700 and holds index.db (index-store.h), vectors-N (vector-file.h; N: the generation) and lock.
 */
#include <stdint.h>

struct place {
    char *root; /* absolute path of the folder that is indexed, symbolic links resolved; owned */
    char *dir;  /* of the index; owned */
    int fd;     /* of dir; owned; -1: not open */
    int lock;   /* owned; -1: not held */
};

#define PLACE_INIT                                                                                                     \
    {                                                                                                                  \
        .fd = -1, .lock = -1                                                                                           \
    }

enum { PLACE_NAME = 40 }; /* of a vector file */

/* The folder of all indexes; the caller frees *out. 0 or -errno; sets the error message. */
int place_all(char **out);

/* The place of the index of the folder @path, which need not exist. Call place_close in any case. 0; -ENOENT, -ENOTDIR:
 * no such folder; else -errno; sets the error message. */
int place_of(struct place *p, const char *path);

/* The nearest index of the working directory and the folders above it. 0; 1: none; -errno; sets the error message. */
int place_nearest(struct place *p);

/* Open the folder of the index, and make it if @make. 0; 1: it does not exist; -errno; sets the error message. */
int place_open(struct place *p, int make);

/* Become the only process that changes the index. 0; -EBUSY: another does; -errno; sets the error message. */
int place_lock(struct place *p);

/* Remove the index, whose lock is held. 0 or -errno; sets the error message. */
int place_remove(struct place *p);

void place_close(struct place *p);

/* Write the name of the vector file of @generation to @out; returns it. */
char *place_vectors(char out[PLACE_NAME], uint64_t generation);

/* Remove the vector files of other generations, which killed processes left. */
void place_tidy(struct place *p, uint64_t generation);
