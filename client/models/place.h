/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A model's place in a folder: NAME.gguf, put there whole by a rename or not at all. What is on its way stands beside
 * it as NAME.gguf.part, locked (flock) by who writes it; of a pull it stays for the next one to go on with, together
 * with NAME.gguf.part.from, which says where it comes from.
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

/* The name of a model that is to be in a folder: @given, else (NULL) what @path's last component makes of it, without
 * .gguf. 0 and *out, the caller's; -EINVAL with a sentence; -ENOMEM. */
int place_name(const char *given, const char *path, char **out);

/* The place of @name (which is taken) in the user's folder, or the system's, which is made if need be and @make.
 * 0; -ENOENT: there is no such folder; else -errno; with a sentence. place_close in any case. */
int place_open(struct place *p, char *name, bool system, bool make);
void place_close(struct place *p);

/* 0: nothing is there yet, or @force; -EEXIST with a sentence. */
int place_vacant(const struct place *p, bool force);

/* Open the .part for writing and reading, and lock it. 0; -EBUSY: somebody else is writing it; else -errno; with a
 * sentence. */
int place_begin(struct place *p);

/* Take the .part away, and what belongs to it. */
void place_discard(struct place *p);

/* On the disk, then in its place; what was there before goes only with @force. 0; -EEXIST; -errno; with a sentence. */
int place_commit(struct place *p, bool force);

/* Put NAME.gguf.link, which somebody has made, in the place of what is there. 0; -errno with a sentence. */
int place_replace(struct place *p);

/* 0, or -ENOSPC with a sentence: that many more bytes do not fit on the folder's disk. */
int place_room(const struct place *p, uint64_t bytes);

/* The absolute path of @file in the folder, the caller's; NULL: no memory. */
char *place_path(const struct place *p, const char *file);
