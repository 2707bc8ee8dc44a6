/* SPDX-License-Identifier: MIT */
#pragma once
/* Lists, counts and sizes of sessions. The engine thread calls these. */
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct session_store;

/* Number of sessions of @uid, or of all users with (uid_t)-1, and their bytes in memory. */
void session_count(const struct session_store *s, uid_t uid, size_t *sessions, uint64_t *bytes);
/* Bytes on disk of @uid's sessions (of all with (uid_t)-1), and how many a user may take (0: no limit). */
void session_disk(const struct session_store *s, uid_t uid, uint64_t *bytes, uint64_t *max);

struct session_info {
    const struct proto_text *name; /* owned by the page or, from session_list(), by the session */
    uint64_t used;                 /* realtime microseconds of the last use */
    uint64_t ids, messages;        /* after its last finished turn; 0 during the first */
    uint64_t bytes;                /* in memory when loaded */
    uint64_t disk, shared;         /* bytes on disk: freed by its removal; used by other sessions as well */
    bool busy, loaded;
};

/* All sessions of @uid, the most recently used first. *out is the caller's to free (NULL for none); its names are valid
 * until the store is used again. 0 or -ENOMEM. */
int session_list(const struct session_store *s, uid_t uid, struct session_info **out, size_t *n);

/* A part of a user's list: a copy, independent of the store. */
struct session_page {
    struct session_info *all; /* [n] */
    size_t n;
    char next[PROTO_CURSOR_MAX + 1]; /* cursor of the next page; "": this is the last one */
    struct proto_text *names;        /* [n] */
    char *text;                      /* bytes of the names */
};

/* At most @limit of @uid's sessions, the most recently used first. @next: the cursor of an earlier page (len 0: start
 * at the first session). A session that was used between two pages has moved to the front, so the second page may miss
 * or repeat it. 0: session_page_fini() frees *out; -EINVAL with an error message: @next is not a cursor; -ENOMEM. On
 * error session_page_fini() is allowed. */
int session_page_take(const struct session_store *s, uid_t uid, const struct proto_text *next, size_t limit,
                      struct session_page *out);
void session_page_fini(struct session_page *p);
