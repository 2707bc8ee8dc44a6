/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The log of a session: DIR/UID/HASH.log, HASH the hex of the XXH3-128 of its name. All numbers little-endian:
 *
 *     magic[16]
 *     records, one after the other:
 *         u32 length of the payload
 *         u32 kind: 0 head (the first, and only the first), 1 turn (session-record.h), 2 bases (at most one, the
 *             second; below)
 *         u64 XXH3-64 of the 24 bytes before: so that a length can be trusted
 *         payload
 *         XXH3-128 (canonical) of all of the record so far and the 16 bytes before it
 *
 * The 16 bytes before a record are the checksum of the one before (or the magic), so each checksum stands for the whole
 * file up to it: records that are missing, doubled, swapped or another file's do not fit. A file is made under a
 * temporary name with its head and first turn, synced and renamed; each later turn is one write and one fsync. So a
 * file that ends inside a record whose head is good was cut by a crash; any other fault is damage, and damaged files
 * are kept aside. A log that has become much longer than what it says is written anew.
 *
 * Bases: the session is a fork, or was renamed, and begins as other logs say (session-share.h). Base i is the file
 * HASH.bi, a log of the same uid; of it counts what is before its byte size, where a record ends with this checksum. If
 * it has bases itself, they are the ones before it. The bases' turns come ahead of the file's own. The payload:
 *
 *     u8 n, 1 … 4   u8 flags (1: outcomes and failure of the last base stay; else a fork has none)
 *     (u64 size   sum[16]) × n
 *     summary, as at the end of a turn (session-record.h)
 *
 * Other names: HASH.tmp, which a crash may leave; HASH.bad and HASH-1.bad … HASH-9.bad, what was set aside.
 */
#include "daemon/cache/session-record.h"
#include "daemon/cache/session-store.h"

#define SESSION_LOG_MAGIC     "hob session 1\n\0" /* with the terminator, 16 bytes */
#define SESSION_LOG_HEAD_MAX  512                 /* bytes; magic and head record are shorter */
#define SESSION_LOG_SUM       16                  /* bytes of a checksum */
#define SESSION_LOG_KIND_HEAD 0
#define SESSION_LOG_KIND_TURN 1
#define SESSION_LOG_KIND_BASE 2
#define SESSION_LOG_HEX       33                    /* a name's hash, with the terminator */
#define SESSION_LOG_NAME      (SESSION_LOG_HEX + 6) /* HASH-1.bad is the longest */
#define SESSION_LOG_BADS      10

/* --- records --- */

/* The head record: u32 uid, replaced_hash[16], replaced_sum[16], u8 length of the name, name. */
struct session_log_head {
    uid_t uid;
    uint8_t replaced_hash[16]; /* all zero, or: this file is a rename of the one with this name's hash and this last */
    uint8_t replaced_sum[16];  /* checksum, which is to be removed where it is still there */
    char name[PROTO_NAME_MAX + 1];
    size_t name_len;
};

/* Out of the first @n bytes of a file. 0: the first turn begins at *at; -EBADMSG: damaged; -EOPNOTSUPP: another
 * version's. */
int session_log_head(struct session_log_head *out, const uint8_t *data, size_t n, size_t *at);
/* Append magic and head of a file that is x's. @replaced: it is a rename of this one's; may be NULL. 0 or -ENOMEM. */
int session_log_write_head(struct buf *b, const struct session *x, const struct session *replaced);

/* Begin a record; the 16 bytes before it are in @b, its payload is to follow. 0 or -ENOMEM. */
int session_log_begin(struct buf *b);
/* End the one that began at @at. 0 or -ENOMEM. */
int session_log_finish(struct buf *b, size_t at, uint32_t kind);

enum session_log_found { LOG_GOOD, LOG_END, LOG_TORN, LOG_DAMAGED };

/* The record at data[*at], *at >= 16. LOG_GOOD: *at is behind it; LOG_END: there is none; LOG_TORN: the file ends
 * inside of it. */
enum session_log_found session_log_next(const uint8_t *data, size_t n, size_t *at, uint32_t *kind,
                                        const uint8_t **payload, size_t *len);

/* --- names --- */

void session_log_hex(char out[SESSION_LOG_HEX], const uint8_t hash[16]);
void session_log_name(char out[SESSION_LOG_NAME], const uint8_t hash[16], const char *ext); /* ".log" */
void session_log_bad_name(char out[SESSION_LOG_NAME], const uint8_t hash[16], int i);       /* 0 … BADS-1 */
/* DIR/UID/HASH.log, for warnings: a session's name is its user's. Returns @out. */
const char *session_log_path(const struct session *x, char *out, size_t n);

/* Atomically, and never over another file. 0; -EEXIST, … */
int session_log_rename_new(int dir, const char *from, const char *to);
/* Rename the log of @hash to the first free *.bad name, told in @bad; @keep: give it that second name only. The
 * directory is synced. 0 or -errno. */
int session_log_set_aside(int dir, const uint8_t hash[16], bool keep, char bad[SESSION_LOG_NAME]);
/* Remove x's log, sync the directory, then remove its bases. 0 (it may have been gone) or -errno. */
int session_log_unlink(int dir, struct session *x);

/* --- whole logs --- */

/* Put a file of these bytes, synced, in place of x's log; it is counted. 0; -ENOSPC and others: nothing changed, unless
 * x has another inode: then its name is not synced. All with a sentence. */
int session_log_publish(int dir, struct session *x, const struct buf *b);
/* Write a file of x's that says all that @from is (x itself, or the session that x replaces), in place of what x has.
 * 0, and x->log says so; -EEXIST with a sentence when x has none but there is a file; -errno. */
int session_log_write(int dir, struct session *x, const struct session *from);
/* The log, whose last bytes @b ends with, has @size bytes and says all that @x is. */
void session_log_saved(struct session *x, const struct buf *b, uint64_t size);
/* x has a file of its own, @inode with @size good bytes, from now on; it is counted. 0 or -ENOMEM (nothing changed). */
int session_log_place(struct session *x, uint64_t inode, uint64_t size);
/* x has none; the name it had is gone. */
void session_log_drop(struct session *x);
/* x has none; the file stays, is another's to remove, and is counted until then. */
void session_log_leave(struct session *x);
