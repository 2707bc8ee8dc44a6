/* SPDX-License-Identifier: MIT */
#pragma once
/* Scanning the directory of the session logs. */
#include "daemon/session/session-log.h"
#include "daemon/session/share.h"

/* A log with a valid head. */
struct session_found {
    struct session_log_head head;
    uint8_t hash[16];
    uint8_t sum[16]; /* the last bytes of the file: the checksum of its last record, if that is complete */
    uint64_t size, inode;
    struct session_bases bases;     /* n 0: none */
    struct session_summary summary; /* of the last record; if that is damaged: from the file's size and time */
};

typedef void (*session_hash_fn)(uint8_t out[16], const char *name, size_t len);

/* Call @found for every log. Removes *.tmp files, renames damaged logs to *.bad, and warns of both and of files it
 * cannot use. 0; a negative return of @found; -errno (message). */
int session_dir_scan(int dir, const char *path, session_hash_fn hash,
                     int (*found)(void *ctx, const struct session_found *f), void *ctx);

/* A file next to the logs: a base or a *.bad file. */
struct session_beside {
    uid_t uid;
    int dir; /* of the uid; valid during the callback */
    const char *name;
    uint8_t hash[16];
    int base; /* its number; -1: a *.bad file */
};

/* Call @found for every one. 0; a negative return of @found; -errno (message). */
int session_dir_beside(int dir, const char *path, int (*found)(void *ctx, const struct session_beside *b), void *ctx);
