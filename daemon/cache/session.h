/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Sessions: (uid, name) -> the token ids so far, the text they stand for, the messages they came from, and the KV that
 * is still held. In memory; the log on disk comes behind the same functions. The store belongs to the engine thread; a
 * session that is busy belongs to the request that made it so (an aux job may then read it).
 */
#include "daemon/cache/kv_table.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct session {
    uid_t uid;
    struct proto_text name;
    bool busy;
    bool raw;      /* made with --raw: a text, no messages */
    uint64_t used; /* counter of last use: the largest of a uid is its "last session" */

    /* The truth: ids, and for each id the end of its text in @text. markup[i] is 1 for a byte of @text that the
     * template wrote (or a special token stands for). */
    int32_t *ids;   /* [n_ids] */
    uint32_t *ends; /* [n_ids] */
    size_t n_ids, cap_ids;
    struct buf text;   /* bytes */
    struct buf markup; /* as many flags */

    struct proto_message *messages;
    size_t n_messages;
    size_t message_bytes; /* what they take, for the uid's account */

    struct kv_table kv; /* covers a prefix of ids; may be emptied to free blocks */
    struct session *prev, *next;
};

struct session_store;

/* @pool outlives the store. A uid whose sessions hold @bytes_max_per_uid (ids, text, messages; KV is the pool's) starts
 * no new turn. 0 or -ENOMEM. */
int session_store_new(struct session_store **out, struct kv_pool *pool, uint64_t bytes_max_per_uid);
struct session_store *session_store_free(struct session_store *s); /* NULL ok, returns NULL; frees all sessions */

/* Find or make. 0; -EBUSY when another request is using it; -ENOENT for @create false; -EDQUOT over the uid's bytes;
 * -EINVAL for a name that is empty, longer than PROTO_NAME_MAX, or holds NUL, '/' or control characters (sentence). On
 * 0 it is busy. */
int session_acquire(struct session_store *s, uid_t uid, const char *name, size_t len, bool create,
                    struct session **out);
/* The most recently used one of @uid; -ENOENT with a sentence when there is none. On 0 it is busy. */
int session_acquire_last(struct session_store *s, uid_t uid, struct session **out);
void session_release(struct session_store *s,
                     struct session *x); /* no longer busy; one that holds nothing is removed */

/* Replace what the session holds after position/id @keep: truncate ids, text and markup (KV too). */
void session_truncate(struct session_store *s, struct session *x, size_t keep);
/* Append one id with its text. 0 or -ENOMEM (nothing changed). */
int session_append(struct session *x, int32_t id, const char *text, size_t len, bool markup);
/* Append @n ids with the @len bytes of text and flags they stand for; @ends are offsets into x->text as it will be.
 * 0 or -ENOMEM (nothing changed). */
int session_extend(struct session *x, const int32_t *ids, const uint32_t *ends, size_t n, const char *text,
                   const char *markup, size_t len);
/* 0 or -ENOMEM (nothing changed). Both strings are copied. */
int session_add_message(struct session *x, const char *role, size_t role_len, const char *content, size_t len);

/* Forget the messages from @keep on. */
void session_drop_messages(struct session *x, size_t keep);

/* Give up the KV of the least recently used idle session; false when there is none to give up. */
bool session_shed(struct session_store *s);

/* Counts of @uid, or of all with (uid_t)-1. */
void session_count(const struct session_store *s, uid_t uid, size_t *sessions, uint64_t *bytes);
