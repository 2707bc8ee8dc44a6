/* SPDX-License-Identifier: MIT */
#pragma once
/* A recorded log (record.h), and the folders that a crash at some moment of it may leave. */
#include "tests/crash/record.h"
#include <stdbool.h>
#include <stddef.h>

struct change {
    const struct record *r;
    const char *bytes;   /* of a write or a note, [r->bytes] */
    uint32_t name, from; /* numbers of names */
    uint32_t file, dir;  /* numbers of objects; 0: none */
    uint32_t ask;        /* of a sync: the change that began it */
};

struct object {
    uint32_t *writes; /* [n_writes] changes of its contents */
    uint32_t n_writes;
    bool is_dir;
};

struct history {
    char *log;
    struct change *changes; /* [n] */
    uint32_t n;
    struct object *objects; /* [n_objects]; 0 is none, 1 the folder that the log is about */
    uint32_t n_objects;
    char **names; /* [n_names] */
    uint32_t n_names;
};

/* Read the log at @path about the folder with the inode number @root. Exits with a message on an error. */
void history_read(struct history *h, const char *path, uint64_t root);
void history_free(struct history *h);

/* The contents of a file when the changes before @end are complete. The caller frees *out. */
void history_contents(const struct history *h, uint32_t file, uint32_t end, uint8_t **out, size_t *size);

/* A name in a folder. */
struct entry {
    uint32_t dir, name, file;
};

/* What a crash leaves. */
struct crash {
    uint32_t at;   /* changes before this one were begun */
    uint64_t seed; /* of the choice among all that may have reached the disk */
};

/*
 * Make the folder @dir (which exists and is empty) as a crash may leave it. It has everything that an fsync covers.
 * Of the rest each change of a directory may be there or not, in half of the states in the order of a journal; of the
 * data of a file any part may be there, cut at any byte, sector or page, and what lacks below its size is zeros or
 * garbage. Returns a hash of the folder.
 */
uint64_t crash_build(const struct history *h, const struct crash *c, int dir);

/* Changes that no fsync before @at covers, of the reachable tree; for counting. */
uint32_t crash_pending(const struct history *h, uint32_t at);

uint64_t crash_random(uint64_t *seed);
