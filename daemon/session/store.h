/* SPDX-License-Identifier: MIT */
#pragma once
/* The layout of sessions, owners and the store, for the files of this folder only. */
#include "daemon/session/content.h"
#include "daemon/session/names.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define SESSION_LOG_SUM 16 /* bytes of a checksum */

struct session_info;

/* --- a session --- */

struct session_key {
    uid_t uid;
    uint8_t hash[16]; /* of the name */
    struct proto_text name;
};

/* The beginning of another log that a fork shares (share.h). */
struct session_base {
    uint64_t size;                /* bytes of it */
    uint8_t sum[SESSION_LOG_SUM]; /* checksum of the record that ends there */
    uint64_t inode;               /* of the fork's link to it; 0: it has none */
};

/* The part of the content that the log has. */
struct session_log {
    uint64_t size;                            /* valid and synced bytes of the file; 0: there is no file */
    uint64_t inode;                           /* of the file, if quota.h counts it; else 0 */
    uint8_t sum[16];                          /* checksum of its last record */
    struct session_base bases[SESSION_BASES]; /* [n_bases], oldest first, ahead of the file's own turns */
    uint32_t n_bases;
    uint8_t origin[16];  /* size 0: the bases are those of the session with this hash and its log; not linked yet */
    size_t ids, text;    /* the log has this much of the session's, unchanged */
    size_t messages;     /* likewise */
    size_t new_outcomes; /* the log lacks the last ones, this many */
    bool entry_synced;   /* this process has synced the directory since the file got its name */
    bool rewrite;        /* the bytes after @size are unknown: the next save writes a new file */
    bool saved;          /* the log has all of the content */
    bool proved;         /* this process has read or written all of it */
    /* The session that was renamed to this one: its hash and the last checksum of its log. Zero: none. */
    uint8_t replaced_hash[16], replaced_sum[16];
};

/* When it was acquired last. */
struct session_use {
    uint64_t realtime; /* microseconds; later than every earlier use */
    uint64_t boot;     /* by the boot clock, microseconds; 0: not used by this process */
};

/* Its part of the owner's accounts, in bytes. */
struct session_charge {
    uint64_t memory;
    uint64_t expected; /* at least this counts as memory until it is loaded */
    uint64_t disk;     /* see session_claim */
};

/* State when it was idle last, for lists: while it is busy only its request may read the content. */
struct session_listing {
    uint64_t ids, messages, bytes, disk, shared;
};

/* Its places in the store's index, index.c's own. */
struct session_links {
    struct session *next_hashed;
    struct session *older, *newer;                   /* all of its owner's, in the order of use */
    struct session *older_resident, *newer_resident; /* its owner's sessions in memory */
    bool resident;                                   /* it is one of them */
};

struct session {
    struct session_key key;
    struct session_owner *owner;
    bool busy;
    bool loaded;                    /* content is in memory, not only on disk */
    struct session_content content; /* content.c */
    struct session_tail tail;       /* the engine's */
    struct session_log log;         /* session-log.c and the files above it */
    struct session_use last_use;
    struct session_charge charged;
    struct session_listing listed; /* session.c */
    struct session_links links;    /* index.c */
};

/* --- the quota --- */

struct session_space;

/* Of a store, quota.c's own. */
struct session_quota {
    int dir; /* in the file system that is limited; -1: memory only */
    const char *path;
    int (*space)(int dir, struct session_space *out);
    pthread_mutex_t lock; /* of the members below, and of the usage of each owner */
    uint64_t bytes_max;   /* of a user; 0: no limit */
    uint64_t reserve;
    uint64_t claimed; /* by all users */
};

/* Of an owner, quota.c's own. */
struct session_usage {
    void *inodes;   /* a tree of tsearch(3) */
    uint64_t names; /* of all inodes */
    uint64_t bytes; /* of all inodes */
    uint64_t claimed;
};

/* --- an owner --- */

/* A uid. @usage belongs to the lock of the quota; the first four members never change; the others that are not atomic
 * belong to the engine thread. */
struct session_owner {
    uid_t uid;
    int dir;          /* of the store; -1: memory only */
    const char *path; /* of that directory */
    struct session_quota *quota;
    struct session_owner *next;
    _Atomic uint64_t bytes; /* in memory, of all its sessions */
    _Atomic size_t n;       /* sessions */
    struct session_usage usage;
    struct session *oldest, *newest;
    struct session *oldest_resident, *newest_resident;
};

/* --- the store --- */

/* A rename that a crash may have interrupted: @to replaces the log with this hash and last checksum. */
struct replacing {
    struct session *to;
    uint8_t hash[16], sum[16];
};

struct session_store {
    uint64_t bytes_max;
    uint32_t sessions_max;
    struct session_quota quota;
    int dir, lock; /* descriptors; -1: memory only */
    char *path;
    void (*clock)(uint64_t *, uint64_t *);
    void (*hash)(uint8_t out[16], const char *name, size_t len);
    struct session_owner *owners;
    struct session **buckets; /* [n_buckets], a power of two; chained by next_hashed */
    size_t n_buckets, n;
    uint64_t seed;               /* of the buckets: users choose the names */
    uint64_t latest;             /* last use of all sessions, realtime microseconds */
    struct replacing *replacing; /* [n_replacing], during the scan of the directory */
    size_t n_replacing;
};

/* --- index.c, by the engine thread --- */

struct session_owner *session_find_owner(const struct session_store *s, uid_t uid); /* NULL: none */
struct session_owner *session_get_owner(struct session_store *s, uid_t uid);        /* NULL: no memory */
struct session *session_find(const struct session_store *s, uid_t uid, const uint8_t hash[16]);
/* A new idle session, not loaded and not yet in the order of use. NULL: no memory. */
struct session *session_make(struct session_store *s, uid_t uid, const char *name, size_t len, const uint8_t hash[16]);
/* Remove @x from the store and free it. Files stay. */
void session_delete(struct session_store *s, struct session *x);
/* The order of use. Append: it becomes the newest. */
void session_order_remove(struct session *x);
void session_order_append(struct session *x);
/* The same of the sessions in memory. @x may already be removed or appended. */
void session_resident_remove(struct session *x);
void session_resident_append(struct session *x);

/* --- list.c --- */

/* Update the bytes on disk that lists show of @x while it is busy. */
void session_measure(struct session *x);
/* The entry of @x in a list; the name is the session's. */
void session_info_of(const struct session *x, struct session_info *out);

/* --- content.c --- */

/* Bring the owner's account up to date with the size of the content. */
void session_charge(struct session *x);
/* The content has changed: it is unsaved, and charged. */
void session_changed(struct session *x);
/* Drop the content; files stay. */
void session_clear(struct session *x);
/* Drop the outcomes, and the note and the error message of the last turn, which a fork does not inherit. */
void session_drop_outcomes(struct session *x);
/* Do the first @keep ids end inside a run? */
bool session_cuts_run(const struct session_content *c, size_t keep);
/* Drop the runs behind the first @keep ids. */
void session_cut_runs(struct session_content *c, size_t keep);
/* Move the content of @src to @dst, which is empty. */
void session_take(struct session *dst, struct session *src);

/* --- quota.c --- */

/* Give back the bytes that @x claimed. */
void session_unclaim(struct session *x);
