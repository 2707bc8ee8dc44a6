/* SPDX-License-Identifier: MIT */
#pragma once
/* What the files behind session.h share among themselves. */
#include "daemon/cache/session-room.h"
#include "daemon/cache/session.h"
#include <stdatomic.h>

/* A uid. What is not atomic belongs to the engine thread, but for the first five, which never change, and the share,
 * which the lock of the room guards. */
struct session_owner {
    uid_t uid;
    int dir;          /* of the store's directory; -1: memory only */
    const char *path; /* its name */
    struct session_room *room;
    struct session_owner *next;
    _Atomic uint64_t bytes; /* in memory, of all its sessions */
    _Atomic size_t n;       /* sessions */
    struct session_share share;
    struct session *oldest, *newest;
    struct session *oldest_resident, *newest_resident;
};

/* Bring the owner's account up to date with what is in @x. */
void session_charge(struct session *x);
/* Give back what it claimed. */
void session_unclaim(struct session *x);

/* A rename that may have been cut short: @to says that it replaces the log of hash and last checksum. */
struct replacing {
    struct session *to;
    uint8_t hash[16], sum[16];
};

struct session_store {
    uint64_t bytes_max;
    uint32_t sessions_max;
    struct session_room room;
    int dir, lock; /* -1: memory only */
    char *path;
    void (*clock)(uint64_t *, uint64_t *);
    void (*hash)(uint8_t out[16], const char *name, size_t len);
    struct session_owner *owners;
    struct session **buckets; /* [n_buckets], a power of two; chained by next_hashed */
    size_t n_buckets, n;
    uint64_t seed;               /* of the buckets: users choose the names */
    uint64_t latest;             /* use of all that were seen */
    struct replacing *replacing; /* [n_replacing], while scanning */
    size_t n_replacing;
};

/* --- session-index.c: the engine thread's --- */

struct session_owner *session_find_owner(const struct session_store *s, uid_t uid); /* NULL: none */
struct session_owner *session_get_owner(struct session_store *s, uid_t uid);        /* NULL: no memory */
struct session *session_find(const struct session_store *s, uid_t uid, const uint8_t hash[16]);
/* An idle one that is in no order yet, and not loaded. NULL: no memory. */
struct session *session_make(struct session_store *s, uid_t uid, const char *name, size_t len, const uint8_t hash[16]);
void session_delete(struct session_store *s, struct session *x);
/* The order of use, of all of its owner's and of those in memory; append: it is the newest now. */
void session_order_remove(struct session *x);
void session_order_append(struct session *x);
void session_resident_remove(struct session *x); /* may be none */
void session_resident_append(struct session *x); /* may be one already */

/* --- session-content.c --- */

/* Free what was said in it: it is empty then. Nothing on disk. */
void session_clear(struct session *x);
/* Forget how turns ended, as a fork does, and why the last one failed. */
void session_drop_outcomes(struct session *x);
/* Take what was said in @src, which is empty then; @dst was. */
void session_take(struct session *dst, struct session *src);
