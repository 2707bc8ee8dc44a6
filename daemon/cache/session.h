/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Sessions: (uid, name) -> the token ids so far, the text they stand for, the messages they came from, and how the last
 * turns ended. In memory, and in a log on disk each when the store has a directory (session-log.h says how it looks).
 *
 * The store belongs to the engine thread and does no disk I/O once it is open. A session that is busy belongs to the
 * request that made it so: a job may load it, read it, save it, and change what is in it. A turn:
 *
 *     engine  session_acquire                       busy; perhaps not loaded
 *     aux     session_load, prepare the prompt
 *     engine  session_truncate, session_extend, session_add_message, session_add_outcome
 *     aux     session_save                          0: it is on disk; only then the answer's `done`
 *     engine  session_release
 *
 * fork:   session_fork;   aux: session_duplicate(out, src); release both. With a turn: session_copy(out, src) first.
 * rename: session_rename; aux: session_load(src), session_move(out, src); release both.
 * remove: session_acquire or session_acquire_expired; aux: session_erase; release.
 */
#include "daemon/cache/prefix.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SESSION_OUTCOMES 8     /* that a session remembers */
#define SESSIONS_MAX     10000 /* of one uid */

/* How a turn that had a UUID ended: what a retry of the same request is answered. */
struct session_outcome {
    char uuid[40];
    enum proto_reason reason;
    uint64_t usage_prompt, usage_cached, usage_completion, shifted;
    int64_t miss_at, seed;
    struct proto_text answer;
};

struct session_owner; /* what the store knows of a uid */

/* A log whose beginning a fork has in common with the session that it was forked from. */
struct session_base {
    uint64_t size;   /* bytes of it */
    uint8_t sum[16]; /* of the record that ends there */
    uint64_t inode;  /* of the fork's name for it; 0: it has none */
};

#define SESSION_BASES 4 /* of one session, the oldest first */

/* What of a session is in its log; session-log.c's own. */
struct session_log {
    uint64_t size;                            /* of what is whole and synced in the file; 0: there is none */
    uint64_t inode;                           /* of the file, if it is counted (session-room.h); 0: it is not */
    uint8_t sum[16];                          /* of its last record */
    struct session_base bases[SESSION_BASES]; /* [n_bases] ahead of the file's own turns */
    uint32_t n_bases;
    uint8_t origin[16];  /* size 0: the bases are these of the session with this hash, and its log; no links yet */
    size_t ids, text;    /* so many of the session's stand in it as they are */
    size_t messages;     /* likewise */
    size_t new_outcomes; /* so many of the last are not in it */
    bool entry_synced;   /* its name in the directory is on disk: this process saw to it */
    bool rewrite;        /* what stands in the file behind size is not known */
    bool saved;          /* it says what the session is */
    bool proved;         /* it was read or written as a whole by this process */
};

/* Its holder may set raw, context, model, and flags of markup; as part of a turn, with which they are saved. What else
 * there is changes through the functions below. */
struct session {
    uid_t uid;
    struct proto_text name;
    bool busy;
    bool loaded; /* what follows is here, not only on disk */
    bool raw;    /* made with --raw: a text, no messages */
    uint64_t
        used; /* when it was acquired last: realtime microseconds, but never the same or less than an earlier use */

    enum proto_context context;
    uint8_t model[16]; /* fingerprint that the ids belong to */

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

    struct session_outcome *outcomes; /* [n_outcomes], oldest first */
    size_t n_outcomes;
    size_t outcome_bytes;

    /* Why the last turn, for which nobody waited, came to nothing or was cut; len 0: it did not. */
    struct proto_text failed;

    struct prefix_id tail; /* last node of its KV in the prefix index; the engine's. Not on disk, not copied */

    /* the store's own */
    struct session_owner *owner;
    struct session_log log;
    uint8_t hash[16]; /* of the name */
    uint64_t bytes;   /* as charged to the owner */
    uint64_t claimed; /* bytes on disk, see session_claim */
    uint64_t boot;    /* as used, of the boot clock; 0: not used by this process */
    struct {          /* as last seen while it was not busy */
        uint64_t ids, messages, bytes, disk, shared;
    } known;
    struct session *next_hashed;
    struct session *older, *newer;                   /* of its owner's, in the order of use */
    struct session *older_resident, *newer_resident; /* of those in memory */
    bool resident;
};

struct session_store;

/* Of a file system. */
struct session_space {
    uint64_t total, free; /* bytes */
    uint64_t files;       /* that can still be made; UINT64_MAX: any number */
};

struct session_store_config {
    const char *dir;               /* made when missing; must be ours and writable by nobody else. NULL: memory only */
    uint32_t sessions_max_per_uid; /* 0: SESSIONS_MAX */
    uint64_t disk_max_per_uid;     /* bytes on disk; 0: no limit */
    uint64_t disk_reserve;         /* bytes of the file system that stay free; a twentieth of it, if that is less */
    /* For tests; NULL: CLOCK_REALTIME and CLOCK_BOOTTIME in microseconds; XXH3-128; fstatvfs (0 or -errno). */
    void (*clock)(uint64_t *realtime_usec, uint64_t *boottime_usec);
    void (*hash)(uint8_t out[16], const char *name, size_t len);
    int (*space)(int dir, struct session_space *out);
};

/* A store in memory only. A uid whose sessions hold @bytes_max_per_uid (ids, text, messages) starts no new turn. 0 or
 * -ENOMEM. */
int session_store_new(struct session_store **out, uint64_t bytes_max_per_uid);

/*
 * As session_store_new, and with the sessions that are in c->dir. Reads the beginning and the end of each log, not what
 * is between. What a rename that was cut short left is finished; a log whose head is damaged is renamed aside (*.bad)
 * with a warning; other foreign files are left alone. -EBUSY when another daemon has the directory's lock, -EPERM for a
 * directory that is not ours, -EACCES, -EROFS, …: all with a sentence that names the directory.
 */
int session_store_open(struct session_store **out, uint64_t bytes_max_per_uid, const struct session_store_config *c);
struct session_store *session_store_free(struct session_store *s); /* NULL ok, returns NULL; frees all sessions */
/* Take over the limits of @c, whose other members are not looked at. */
void session_store_limit(struct session_store *s, const struct session_store_config *c);

/*
 * Find or make. 0; -EBUSY when another request is using it; -ENOENT for @create false; -EDQUOT over the uid's bytes in
 * memory or number of sessions (only for @create: what makes no turn may look at and remove what is there); -EINVAL for
 * a name that is empty, longer than PROTO_NAME_MAX, or holds NUL, '/' or control characters. All with a sentence. On 0
 * it is busy, and must be loaded before it is read. To make room for it, other idle sessions of the uid may be
 * unloaded.
 */
int session_acquire(struct session_store *s, uid_t uid, const char *name, size_t len, bool create,
                    struct session **out);
/* The most recently used one of @uid, for a turn; -ENOENT with a sentence when there is none. On 0 it is busy. */
int session_acquire_last(struct session_store *s, uid_t uid, struct session **out);
/* The longest idle session that was not used for @ttl_usec (0: none ever is), to be erased. A clock that went backwards
 * makes none of them older. False: there is none. True: *out is busy. */
bool session_acquire_expired(struct session_store *s, uint64_t ttl_usec, struct session **out);
/* An idle session whose last turns could not be saved, to try again. False: there is none. True: *out is busy. */
bool session_acquire_unsaved(struct session_store *s, struct session **out);
/* No longer busy, and what it claimed is given back. One that holds nothing and has no log is removed from the store.
 */
void session_release(struct session_store *s, struct session *x);

/* A new, empty and busy session of @src's uid, to be filled with session_copy (fork) or session_move (rename). -EEXIST
 * when the name is taken, -EINVAL, -EDQUOT (fork only) as session_acquire, all with a sentence. @src must be busy. */
int session_fork(struct session_store *s, const struct session *src, const char *name, size_t len,
                 struct session **out);
int session_rename(struct session_store *s, const struct session *src, const char *name, size_t len,
                   struct session **out);

/* --- on disk; any thread, while the session is busy. Without a directory they return 0 and do what there is to do in
 * memory. --- */

/*
 * Claim @bytes more on disk, for what the turn or fork is about to write: until the session is released they count as
 * the user's, and as not free for others. 0; -EDQUOT: the user's sessions would take more than the limit, or than is
 * left for other users; -ENOSPC: nothing is left above the reserve. With a sentence that names the limit and the way
 * out. Without a directory 0.
 */
int session_claim(struct session *x, uint64_t bytes);
/* What @src claimed is claimed by @dst; both are busy and of one uid. */
void session_take_claim(struct session *dst, struct session *src);

/*
 * Read what the log says, if it is not loaded. Where it ends in a record that is not whole, that is cut off with a
 * warning (it was never acknowledged); where it is damaged otherwise, the file as it was is kept as *.bad and the
 * session is as of the last good record. -EBADMSG with a sentence when nothing of it can be used (the file is set aside
 * then, the session empty); -ENOENT when the file is gone (likewise); -EIO, -ENOMEM, …: it is not loaded.
 */
int session_load(struct session *x);

/*
 * Write what changed. 0: it is on the disk (fsync). Else -errno with a sentence that names the session: it is in memory
 * as it was, on disk as of the last save that returned 0, and the next save tries all of it again.
 */
int session_save(struct session *x);

/* dst (empty) becomes what @src (loaded) is, but for outcomes and tail. 0 or -ENOMEM (nothing changed). When it is
 * saved first, it shares what src's log says by now with that (session-share.h), where this is possible. */
int session_copy(struct session *dst, const struct session *src);

/* The same, and dst is saved. Where the logs can be shared neither need be loaded, and dst is not. 0; else as
 * session_load, session_copy or session_save. */
int session_duplicate(struct session *dst, struct session *src);

/* dst (empty) becomes what @src (loaded) is, with outcomes and tail, and is saved; @src is empty after and its log
 * gone. Whatever happens meanwhile, one of the two is on disk. 0; else as session_save, and nothing changed. */
int session_move(struct session *dst, struct session *src);

/* Remove its log, and what was set aside of it. 0: it is gone, and the session empty. Else -errno with a sentence. */
int session_erase(struct session *x);

/* --- what is in it --- */

/* Replace what the session holds after position/id @keep: truncate ids, text and markup. */
void session_truncate(struct session *x, size_t keep);
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

/* Forget the ids: they are another model's. A raw session keeps its text (and markup), which is all it has; one of
 * messages keeps the messages. */
void session_forget_tokens(struct session *x);

/* Remember why a turn failed that nobody waited for; len 0 forgets it. Copied. 0 or -ENOMEM (nothing changed). */
int session_set_failed(struct session *x, const char *why, size_t len);

/* Remember how the turn with this UUID ended (one with "" is not remembered); the oldest of SESSION_OUTCOMES goes.
 * Copied. 0 or -ENOMEM (nothing changed). */
int session_add_outcome(struct session *x, const struct session_outcome *o);
/* NULL: no such turn, or long ago. */
const struct session_outcome *session_find_outcome(const struct session *x, const char *uuid);

/* Forget what is not saved: a session with a log is loaded from it again when it is next used, one without (also any
 * of a store in memory) is empty. */
void session_revert(struct session *x);

/* --- memory --- */

/* Forget the content of the least recently used idle session that is saved; false when there is none. */
bool session_unload_idle(struct session_store *s);

/* --- telling --- */

/* Counts of @uid, or of all with (uid_t)-1. */
void session_count(const struct session_store *s, uid_t uid, size_t *sessions, uint64_t *bytes);
/* Bytes that these take on disk, and how many a user may take (0: no limit). */
void session_disk(const struct session_store *s, uid_t uid, uint64_t *bytes, uint64_t *max);

struct session_info {
    const struct proto_text *name; /* the session's: until the store is used again */
    uint64_t used;                 /* realtime microseconds */
    uint64_t ids, messages;        /* as of its last turn; 0 of one in its first */
    uint64_t bytes;                /* in memory when loaded */
    uint64_t disk, shared;         /* on disk: what its removal frees; what other sessions use as well */
    bool busy, loaded;
};

/* What is told of @x, which is in a store. */
void session_info_of(const struct session *x, struct session_info *out);

/* Those of @uid, the most recently used first; *out is the caller's to free (NULL for none). 0 or -ENOMEM. */
int session_list(const struct session_store *s, uid_t uid, struct session_info **out, size_t *n);

/* Some of a uid's sessions, as they were when it was taken. */
struct session_page {
    struct session_info *all; /* [n]; their names are in the page, too */
    size_t n;
    char next[PROTO_CURSOR_MAX + 1]; /* where the next page begins; "": this is the last one */
    struct proto_text *names;
    char *text;
};

/* At most @limit of @uid's, the most recently used first, from where an earlier page's @next says (len 0: the
 * beginning). A session that was used meanwhile has moved to the front, and may be missed or come twice. 0; -EINVAL
 * with a message: @next is none; -ENOMEM. */
int session_page_take(const struct session_store *s, uid_t uid, const struct proto_text *next, size_t limit,
                      struct session_page *out);
void session_page_fini(struct session_page *p);
