/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The place of a model in a folder: NAME.gguf, which appears complete, by a rename. A new file is written as
 * NAME.gguf.part, locked (flock) by its writer. After an incomplete pull it stays for the next pull, with
 * NAME.gguf.part.from, which records its origin.
 */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PLACE_FILE = 96 };

struct place {
    char *folder, *name;
    char file[PLACE_FILE], part[PLACE_FILE], from[PLACE_FILE], link[PLACE_FILE]; /* in the folder */
    bool system;
    int dir; /* the folder; -1: not open */
    int fd;  /* the .part, locked; -1: not open */
};

#define PLACE_INIT                                                                                                     \
    {                                                                                                                  \
        .dir = -1, .fd = -1                                                                                            \
    }

/* The name of a new model: @given, else (NULL) the last component of @path, without .gguf and without the
 * number of a part. The caller owns *out. 0;
 * -EINVAL or -ENOMEM; sets the error message. */
int place_name(const char *given, const char *path, char **out);

/* Open the place of @name (ownership is taken) in the user's or the system's folder; @make: create the folder if
 * needed. 0; -ENOENT: no such folder; else -errno; sets the error message. Call place_close in any case. */
int place_open(struct place *p, char *name, bool system, bool make);
/* The same of an adapter @name of the model @model, in the folder MODEL.adapters; *base (owned by the caller): the path
 * of the model's file. -ENOENT: there is no such model in the folder. */
int place_open_adapter(struct place *p, char *name, const char *model, bool system, bool make, char **base);
void place_close(struct place *p);

/* 0: the place is empty, or @force; -EEXIST; sets the error message. */
int place_vacant(const struct place *p, bool force);

/* Open the .part for reading and writing, and lock it. 0; -EBUSY: another process writes it; else -errno; sets the
 * error message. */
int place_begin(struct place *p);

/* Remove the .part and its .from. */
void place_discard(struct place *p);

/* Sync the .part and rename it into place; replaces a model only with @force. 0; -EEXIST or -errno; sets the error
 * message. */
int place_commit(struct place *p, bool force);

/* Rename NAME.gguf.link, which the caller has created, over the model. 0; -errno; sets the error message. */
int place_replace(struct place *p);

/* Check the free space for @bytes more bytes. 0 or -ENOSPC; sets the error message. */
int place_room(const struct place *p, uint64_t bytes);

/* The absolute path of @file in the folder, owned by the caller; NULL: no memory. */
char *place_path(const struct place *p, const char *file);
