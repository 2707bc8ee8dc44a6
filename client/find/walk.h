/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Lists the files of a tree that an index may hold, folder by folder in the order of their names. Left out are: names
 * that begin with a dot, what .gitignore files say (unless all are asked for), symbolic links, which are never
 * followed, and what is no regular file.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct walk_counts {
    uint64_t files;      /* given to the callback */
    uint64_t large;      /* over the limit */
    uint64_t links;      /* symbolic links */
    uint64_t unreadable; /* folders, and .gitignore files */
    uint64_t deep;       /* folders below WALK_DEPTH_MAX others */
};

enum { WALK_DEPTH_MAX = 200 };

/* @path: in the tree, without a leading slash. 0, or a negative error that ends the walk. */
typedef int (*walk_fn)(void *ctx, const char *path, const struct stat *st);

struct walk {
    int root;          /* descriptor of the folder */
    uint64_t max_size; /* of a file, bytes */
    bool all;          /* .gitignore does not count */
    walk_fn fn;
    void *ctx;
    struct walk_counts counts; /* out */
};

/* 0; -EINTR; -ENOMEM; what fn returned; sets the error message. Folders that cannot be read are only counted. */
int walk_tree(struct walk *w);
