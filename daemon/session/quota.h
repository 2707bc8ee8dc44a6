/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The quota of sessions on disk: bytes used, and who may use more. A file counts by its inode: a file with several
 * names (a fork shares its parent's log) counts once, until its last name is removed. Its size is rounded up to blocks
 * of SESSION_QUOTA_BLOCK bytes.
 *
 * A turn claims the bytes it will write before it starts (session_claim). The bytes of a user may not exceed the
 * configured limit, nor the bytes then left in the file system for all users: free space, less the reserve, less the
 * claims of others. One user alone thus takes at most half of the free space, and another user always finds some.
 */
#include <stdint.h>

#define SESSION_QUOTA_BLOCK 4096

struct session_owner;
struct session_quota;
struct session_store_config;
struct session_usage;

void session_quota_init(struct session_quota *q, const struct session_store_config *c);
void session_quota_fini(struct session_quota *q);
void session_usage_fini(struct session_usage *u);

/* Count one more name of the file @inode, which has @size bytes. @kept: forks share this many of its first bytes, so
 * they must stay; 0: none. 0 or -ENOMEM. */
int session_quota_add(struct session_owner *o, uint64_t inode, uint64_t size, uint64_t kept);
/* Count one name less; an inode that is not counted is ignored. */
void session_quota_remove(struct session_owner *o, uint64_t inode);
void session_quota_resize(struct session_owner *o, uint64_t inode, uint64_t size);
/* The number of bytes at the file's beginning that forks share. */
uint64_t session_quota_kept(struct session_owner *o, uint64_t inode);
/* Add the file's bytes to *own if it has one name, else to *shared. */
void session_quota_split(struct session_owner *o, uint64_t inode, uint64_t *own, uint64_t *shared);

/* session_quota_add of the file @name in @dir. 0, also if there is no such file; or -errno. */
int session_quota_add_name(struct session_owner *o, int dir, const char *name, uint64_t kept);
/* Unlink @name and count one name less. 0, also if there is no such file; or -errno. */
int session_quota_unlink(struct session_owner *o, int dir, const char *name);

/* 0: a file of @bytes leaves the reserve free; -ENOSPC or another -errno (message). */
int session_quota_fits(struct session_owner *o, uint64_t bytes);
