/* SPDX-License-Identifier: MIT */
#pragma once
/* Brings an index up to date with its folder: only files whose size or time of change differ are read, only texts that
 * the index does not have are embedded. */
#include "client/find/index.h"
#include "client/find/walk.h"

struct update {
    struct index *index; /* open for writing */
    struct embedder *embedder;
    uint64_t max_size;
    bool all; /* .gitignore does not count */
    /* Called between files, to show progress; NULL: not called. */
    void (*progress)(void *ctx, const struct update *u);
    void *ctx;
    struct walk_counts walked; /* out, as all that follows */
    uint64_t changed;          /* files that are new or changed */
    uint64_t read, bytes_read; /* of them: done */
    uint64_t bytes_changed;    /* of all of them */
    uint64_t binary;           /* files in the index without a text */
    uint64_t gone;             /* files that were forgotten */
    uint64_t failed;           /* changed files that could not be read */
    uint64_t embedded;         /* chunks */
    uint64_t chunks;           /* in the index, at the end */
};

/* 0; -EINTR; -ECANCELED: see struct embedder; else -errno; sets the error message. After a failure the index is valid
 * and lacks what was not reached. */
int update_run(struct update *u);

/* Copy the rows that count to a new vector file. 0 or -errno; sets the error message. */
int compact_run(struct index *x);
