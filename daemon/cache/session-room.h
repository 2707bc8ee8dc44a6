/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How much of the disk sessions take, and who may take more. A file counts by its inode: one that has several names (a
 * fork shares its parent's log) counts once, until its last name is gone. Its size is rounded up to whole blocks of
 * SESSION_ROOM_BLOCK bytes.
 *
 * A turn claims the bytes that it will write before it begins (session_claim). A user's sum may not exceed the
 * configured limit, nor what is then left of the file system for all users (free space, less the reserve, less what
 * others claimed). So one user alone takes at most half of what is free, and another user always finds room.
 */
#include "daemon/cache/session.h"
#include <pthread.h>
#include <stdatomic.h>

#define SESSION_ROOM_BLOCK 4096

/* Of a store. */
struct session_room {
    int dir; /* whose file system it is; -1: memory only */
    const char *path;
    int (*space)(int dir, struct session_space *out);
    pthread_mutex_t lock; /* of what follows, and of the part of each owner */
    uint64_t bytes_max;   /* of a user; 0: no limit */
    uint64_t reserve;
    uint64_t claimed; /* by all users */
};

/* Of an owner. */
struct session_share {
    void *inodes;   /* a tree for tsearch(3) */
    uint64_t names; /* that lead to them */
    uint64_t bytes; /* of all inodes */
    uint64_t claimed;
};

struct session_owner;

void session_room_init(struct session_room *m, const struct session_store_config *c);
void session_room_fini(struct session_room *m);
void session_share_fini(struct session_share *s);

/* One more name of the file @inode, which has @size bytes. @used: so many of its first bytes must stay, because a fork
 * uses them; 0: none. 0 or -ENOMEM. */
int session_room_add(struct session_owner *o, uint64_t inode, uint64_t size, uint64_t used);
/* One name less; an inode that is not counted is ignored. */
void session_room_remove(struct session_owner *o, uint64_t inode);
void session_room_resize(struct session_owner *o, uint64_t inode, uint64_t size);
/* How many of the file's first bytes forks use. */
uint64_t session_room_used(struct session_owner *o, uint64_t inode);
/* Add to @own the file's bytes if it has one name, else to @shared. */
void session_room_split(struct session_owner *o, uint64_t inode, uint64_t *own, uint64_t *shared);

/* The same for a name in the directory @dir of @o; a name that is not there is 0. */
int session_room_add_name(struct session_owner *o, int dir, const char *name, uint64_t used);
int session_room_unlink(struct session_owner *o, int dir, const char *name);

/* Can a file of @bytes be written without touching the reserve? 0; -ENOSPC or another -errno, with a sentence. */
int session_room_fits(struct session_owner *o, uint64_t bytes);
