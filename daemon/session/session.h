/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Sessions: (uid, name) -> the content of a conversation (content.h). Every session is in memory or, if the store has a
 * directory, in a log on disk (session-log.h describes the file). list.h lists sessions.
 *
 * The store belongs to the engine thread and does no disk I/O after it was opened. A busy session belongs to the
 * request that acquired it: an aux job of the request may load, read, change and save it. A turn:
 *
 *     engine  session_acquire                       busy; perhaps not loaded
 *     aux     session_load, prepare the prompt
 *     engine  session_truncate, session_extend, session_add_message, session_add_outcome
 *     aux     session_save                          0: the turn is on disk; only then the answer's `done`
 *     engine  session_release
 *
 * fork:   session_fork;   aux: session_duplicate(out, src); release both. With a turn: session_copy(out, src) first.
 * rename: session_rename; aux: session_load(src), session_move(out, src); release both.
 * remove: session_acquire or session_acquire_expired; aux: session_erase; release.
 *
 * Errors are negative errno. "-E… (message)" means that error_text() has a message for the user.
 */
#include "daemon/session/content.h"
#include <sys/types.h>

#define SESSIONS_MAX 10000 /* of one uid */

struct session;
struct session_store;

/* --- the store --- */

/* State of a file system. */
struct session_space {
    uint64_t total, free; /* bytes */
    uint64_t files;       /* that can still be created; UINT64_MAX: no limit */
};

struct session_store_config {
    const char *dir;               /* created if missing; owned by us, not writable by others. NULL: memory only */
    uint32_t sessions_max_per_uid; /* 0: SESSIONS_MAX */
    uint64_t disk_max_per_uid;     /* bytes on disk; 0: no limit */
    uint64_t disk_reserve;         /* bytes of the file system that stay free; at most 1/20 of it is kept free */
    /* For tests. NULL: CLOCK_REALTIME and CLOCK_BOOTTIME in microseconds; XXH3-128; fstatvfs(3) (0 or -errno). */
    void (*clock)(uint64_t *realtime_usec, uint64_t *boottime_usec);
    void (*hash)(uint8_t out[16], const char *name, size_t len);
    int (*space)(int dir, struct session_space *out);
};

/* A store without a directory. A uid whose sessions hold @bytes_max_per_uid (ids, text, messages) starts no new turn. 0
 * or -ENOMEM. */
int session_store_new(struct session_store **out, uint64_t bytes_max_per_uid);

/*
 * As session_store_new, and with the sessions in c->dir. Reads only the beginning and the end of each log. Completes
 * renames that a crash interrupted; renames a log with a damaged head to *.bad with a warning; ignores other files.
 * -EBUSY: another daemon holds the directory's lock; -EPERM: the directory is not ours; -EACCES, -EROFS, …: all with a
 * message that names the directory.
 */
int session_store_open(struct session_store **out, uint64_t bytes_max_per_uid, const struct session_store_config *c);
struct session_store *session_store_free(struct session_store *s); /* frees all sessions; NULL ok, returns NULL */
/* Take over the limits of @c; its other members are not read. */
void session_store_limit(struct session_store *s, const struct session_store_config *c);
/* Unload the least recently used idle session that is saved. False: there is none. */
bool session_unload_idle(struct session_store *s);
/* Set *usec to the time since the last use of that session, in microseconds. False: there is no such session. */
bool session_idle_usec(const struct session_store *s, uint64_t *usec);

/* --- acquiring, by the engine thread --- */

/*
 * Find a session, or with @create make one. 0: *out is busy, and must be loaded before it is read; idle sessions of the
 * uid may have been unloaded. With a message: -EBUSY: another request uses it; -ENOENT: no such session, without
 * @create; -EDQUOT: over the uid's bytes in memory or number of sessions (with @create only: a request without a turn
 * may read and remove sessions); -EINVAL: the name is empty, longer than PROTO_NAME_MAX, or contains NUL, '/' or
 * control characters.
 */
int session_acquire(struct session_store *s, uid_t uid, const char *name, size_t len, bool create,
                    struct session **out);
/* The most recently used session of @uid, for a turn. 0: *out is busy; -ENOENT (message): none; others as above. */
int session_acquire_last(struct session_store *s, uid_t uid, struct session **out);
/* The least recently used idle session that was not used for @ttl_usec (0: sessions never expire), to be erased. A
 * clock that was set back makes no session older. True: *out is busy. */
bool session_acquire_expired(struct session_store *s, uint64_t ttl_usec, struct session **out);
/* An idle session with turns that could not be saved, to try again. True: *out is busy. */
bool session_acquire_unsaved(struct session_store *s, struct session **out);
/* Can a turn add @more bytes of messages to @x, which is busy? Idle sessions of the uid may be unloaded. 0; -EDQUOT
 * (message). */
int session_fits(struct session_store *s, const struct session *x, uint64_t more);
/* End the use of @x and its claim. A session without content and without a log is removed from the store. */
void session_release(struct session_store *s, struct session *x);

/* A new, empty and busy session of @src's uid, to be filled by session_copy (fork) or session_move (rename). @src is
 * busy. With a message: -EEXIST: the name is taken; -EINVAL, -EDQUOT (fork only) as session_acquire. */
int session_fork(struct session_store *s, const struct session *src, const char *name, size_t len,
                 struct session **out);
int session_rename(struct session_store *s, const struct session *src, const char *name, size_t len,
                   struct session **out);

/* --- reading --- */

const struct proto_text *session_name(const struct session *x);
uid_t session_uid(const struct session *x);
/* When it was acquired last: realtime microseconds, always later than every earlier use. */
uint64_t session_last_use(const struct session *x);
bool session_loaded(const struct session *x); /* the content is in memory */
bool session_saved(const struct session *x);  /* the log has all of the content */

/* --- on disk; any thread, while the session is busy. In a store without a directory these only change memory. --- */

/*
 * Reserve @bytes more on disk for the turn or fork that follows: until session_release they count as used by the uid
 * and as not free for others. With a message that names the limit and the remedy: -EDQUOT: the uid would take more than
 * the limit, or more than is left for other users; -ENOSPC: no space above the reserve. 0 in a store without a
 * directory.
 */
int session_claim(struct session *x, uint64_t bytes);
/* Move the claim of @src to @dst; both are busy and of one uid. */
void session_take_claim(struct session *dst, struct session *src);

/*
 * Read the log, if the session is not loaded. An incomplete last record (it was never acknowledged) is cut off with a
 * warning. Of a damaged log the bytes are kept as *.bad, and the session has the content up to the last valid record.
 * With a message: -EBADMSG: no record is valid; the log was renamed to *.bad and the session is empty. -ENOENT: the log
 * does not exist; the session is empty. -EIO, -ENOMEM, …: the session is not loaded.
 */
int session_load(struct session *x);

/*
 * Write the changes. 0: they are on disk (fsync). -errno with a message that names the session: the content in memory
 * is unchanged, the log is as of the last save that returned 0, and the next save writes all changes since.
 */
int session_save(struct session *x);

/* Drop unsaved changes: a session with a log is loaded from it at its next use, one without a log is empty. */
void session_revert(struct session *x);

/* Copy the content of @src (loaded) to @dst (empty), without outcomes, note and tail. If @dst is saved before its next
 * change, it shares the log of @src where that is possible (share.h). 0 or -ENOMEM (nothing changed). */
int session_copy(struct session *dst, const struct session *src);

/* session_copy and session_save(dst). If the logs can be shared, neither session is loaded. 0, or the errors of
 * session_load, session_copy and session_save. */
int session_duplicate(struct session *dst, struct session *src);

/* Move the content of @src (loaded) to @dst (empty), with outcomes, note and tail, save @dst, and remove the log of
 * @src, which is empty then. At any moment one of the two is on disk. 0, or the errors of session_save (nothing
 * changed). */
int session_move(struct session *dst, struct session *src);

/* Remove the log and its *.bad files. 0: they are removed, and the session is empty. -errno (message). */
int session_erase(struct session *x);
