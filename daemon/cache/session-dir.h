/* SPDX-License-Identifier: MIT */
#pragma once
/* The directory of the session logs: opening and locking it, and what is in it. */
#include "daemon/cache/session-share.h"

/* Make, check and lock it. 0: *dir and *lock are descriptors of the caller's. Else -errno with a sentence. */
int session_dir_open(int *dir, int *lock, const char *path);

/* A log whose head is good. */
struct session_found {
    struct session_log_head head;
    uint8_t hash[16];
    uint8_t sum[16]; /* the last bytes of the file: its last record's checksum, if it is whole */
    uint64_t size, inode;
    struct session_bases bases;     /* n 0: none */
    struct session_summary summary; /* of the last record; where it is damaged: made up from the file's size and time */
};

typedef void (*session_hash_fn)(uint8_t out[16], const char *name, size_t len);

/* Tell @found of every one; removes *.tmp files, sets damaged ones aside, warns of both and of what is foreign. 0;
 * what @found returned when that was negative; -errno with a sentence. */
int session_dir_scan(int dir, const char *path, session_hash_fn hash,
                     int (*found)(void *ctx, const struct session_found *f), void *ctx);

/* A file beside the logs: a base, or one that was set aside. */
struct session_beside {
    uid_t uid;
    int dir; /* of the uid; the callback's for as long as it runs */
    const char *name;
    uint8_t hash[16];
    int base; /* which one; -1: set aside */
};

/* Tell @found of every one. 0; what @found returned when that was negative; -errno with a sentence. */
int session_dir_beside(int dir, const char *path, int (*found)(void *ctx, const struct session_beside *b), void *ctx);

/* The directory of a uid. @make: where there is none. A descriptor or -errno with a sentence. */
int session_dir_of(int dir, const char *path, uid_t uid, bool make);
