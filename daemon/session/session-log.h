/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The log of a session: the file DIR/UID/HASH.log, HASH the hex of the XXH3-128 of the session's name. uN is a
 * little-endian integer of N bits; a number without a type is unsigned LEB128; "bytes" is a length (LEB128) and that
 * many bytes.
 *
 *     magic: "hob session 1\n\0\0"                16 bytes; the first 12 are the same in every version
 *     records, each:
 *         u32 length of the payload
 *         u32 kind: 0 head, 1 turn, 2 bases, 3 turn with runs of embeddings, 4 turn with parts of messages,
 *         5 turn with both, 6 turn with images or sounds of messages, 7 the same with runs
 *         u64 XXH3-64 of the 24 bytes before, which makes the length trustworthy
 *         payload
 *         XXH3-128 (canonical) of the 16 bytes before the record and the record so far
 *
 * The 16 bytes before a record are the checksum of the record before it (or the magic). Each checksum thus covers the
 * file up to it: missing, repeated or reordered records, and records of other files, do not match.
 *
 * Head, the first record and only the first:
 *
 *     u32 uid
 *     replaced_hash[16], replaced_sum[16]         not zero: this file is a rename of the session with this hash, whose
 *                                                 log ended with this checksum and is to be removed if it still exists
 *     u8 length of the name   name
 *
 * Bases, the second record or absent: the session is a fork or was renamed, and begins as other logs do (share.h). Base
 * i is the file HASH.bi, a log of the same uid; the session uses its first @size bytes, which end with a record that
 * has the checksum @sum. If that log has bases itself, they are the bases before it. The turns of the bases come before
 * the file's own.
 *
 *     u8 n, 1 … 4   u8 flags (1: outcomes and error message of the last base apply; else the fork has none)
 *     (u64 size   sum[16]) × n
 *     summary
 *
 * Turn: the change from the content so far to the new content.
 *
 *     u8 flags (1: raw, 2: failed, 4: parts, 8: note, 16: thought, 32: media, 64: adapter)
 *     u8 context policy (enum proto_context)
 *     model[16]
 *     keep_ids   keep_text   keep_messages        how much of the content so far remains
 *     n   id × n   end × n                        each end as the difference to the one before, the first to keep_text
 *     n   run × n                                 only in a turn with runs, 1 or more, ascending: ids between the run
 *                                                 before and this one, ids of the run, kind and 65536 * columns,
 *                                                 digest[16]. Its ids are ITEM_EMBD, and all have the same end.
 *     text: bytes                                 appended at keep_text
 *     n   run × n                                 markup of the whole text, the kept part included, as lengths of runs:
 *                                                 of zeros, then of ones, then of zeros, …
 *     n   (role: bytes   content: bytes) × n      messages
 *     n   part × n                                only with the flag parts, ascending: messages between the one before
 *                                                 and this one, thinking: bytes, call id: bytes, tool: bytes,
 *                                                 n   (id: bytes   name: bytes   arguments: bytes) × n
 *     n   medium × n                              only with the flag media, 1 or more, ascending: messages from that of
 *                                                 the one before to its own (the first: from keep_messages), kind
 *                                                 (enum proto_media_kind), offset in the content, width, height,
 *                                                 samples, digest[16], file: bytes
 *     n   outcome × n                             uuid: bytes, u8 reason (enum proto_reason), prompt, cached,
 *                                                 completion, shifted, u64 miss_at, u64 seed, answer: bytes
 *     error message: bytes                        only with the flag failed
 *     note: bytes                                 only with the flag note, in a record of a kind with parts
 *     tokens of thinking × n                      only with the flag thought: one for each outcome
 *     adapter: bytes                              only with the flag adapter, in a record of a kind with parts
 *     summary
 *
 * Summary, 32 bytes: u64 last use (realtime microseconds), u64 bytes in memory, u32 ids, u32 messages, u64 XXH3-64 of
 * these 24 bytes.
 *
 * A file is created as HASH.tmp with head and first turn, synced, and renamed; each later turn is one write and one
 * fsync. So a file that ends inside a record with a valid record head was cut by a crash; every other fault is damage,
 * and damaged files are kept. A log that has become much longer than its content is rewritten.
 *
 * Other files: HASH.tmp, which a crash may leave; HASH.bad and HASH-1.bad … HASH-9.bad, the damaged logs (names.h).
 */
#include "daemon/session/record.h"

#define SESSION_LOG_MAGIC      "hob session 1\n\0" /* with the terminator, 16 bytes */
#define SESSION_LOG_HEAD_MAX   512                 /* bytes; magic and head record are shorter */
#define SESSION_LOG_KIND_HEAD  0
#define SESSION_LOG_KIND_TURN  1
#define SESSION_LOG_KIND_BASE  2
#define SESSION_LOG_KIND_RUNS  3 /* a turn with runs */
#define SESSION_LOG_KIND_PARTS 4 /* a turn with parts of messages, or an outcome with calls */
#define SESSION_LOG_KIND_BOTH  5
#define SESSION_LOG_KIND_MEDIA 6 /* a turn with images or sounds, and perhaps parts */
#define SESSION_LOG_KIND_ALL   7 /* the same with runs */
#define SESSION_LOG_KIND_LAST  SESSION_LOG_KIND_ALL

/* --- records --- */

struct session_log_head {
    uid_t uid;
    uint8_t replaced_hash[16]; /* zero: none */
    uint8_t replaced_sum[16];
    char name[PROTO_NAME_MAX + 1];
    size_t name_len;
};

/* Read magic and head from the first @n bytes of a file. 0: *at is the offset of the next record; -EBADMSG: damaged;
 * -EOPNOTSUPP: another version. */
int session_log_head(struct session_log_head *out, const uint8_t *data, size_t n, size_t *at);
/* Append magic and head of a file of @x. 0 or -ENOMEM. */
int session_log_write_head(struct buf *b, const struct session *x);

/* Begin a record. @b ends with the 16 bytes before it; the caller appends the payload. 0 or -ENOMEM. */
int session_log_begin(struct buf *b);
/* End the record that began at offset @at. 0 or -ENOMEM. */
int session_log_finish(struct buf *b, size_t at, uint32_t kind);

enum session_log_found { LOG_GOOD, LOG_END, LOG_TORN, LOG_DAMAGED };

/* Check the record at data[*at], *at >= 16. LOG_GOOD: *at is the offset after it, *payload points into @data; LOG_END:
 * no record follows; LOG_TORN: the file ends inside the record. */
enum session_log_found session_log_next(const uint8_t *data, size_t n, size_t *at, uint32_t *kind,
                                        const uint8_t **payload, size_t *len);

/* --- files --- */

/* DIR/UID/HASH.log, for warnings, without the name that the user chose. Returns @out. */
const char *session_log_path(const struct session *x, char *out, size_t n);

/* Rename atomically, never over another file. 0; -EEXIST, … */
int session_log_rename_new(int dir, const char *from, const char *to);
/* Rename the log of @hash to its first free *.bad name; @keep: link it there instead. Syncs the directory. 0: @bad is
 * that name; -errno. */
int session_log_set_aside(int dir, const uint8_t hash[16], bool keep, char bad[SESSION_FILE_NAME]);
/* Link the log of @x to a *.bad name, counted. The session has no bases then (their links stay with the *.bad file),
 * and the next save writes a new log. 0: @bad is that name; -errno (nothing changed but the name may exist). */
int session_log_keep_bad(int dir, struct session *x, char bad[SESSION_FILE_NAME]);
/* Remove the log of @x, sync the directory, then remove the bases. 0, also if there was no file; or -errno. */
int session_log_unlink(int dir, struct session *x);

/* Write @n bytes at offset @at of the file. 0 or -errno. */
int session_log_put(int fd, const char *p, size_t n, uint64_t at);
/* Read @n bytes at offset @at, fewer only at the end of the file. How many; -errno (no message). */
ssize_t session_log_get(int fd, void *p, size_t n, uint64_t at);
/* Put a new, synced file with the bytes @b in place of the log of @x, and count it. 0. -ENOSPC and others (message):
 * nothing changed, unless x->log.inode did: then the directory is not synced. */
int session_log_publish(int dir, struct session *x, const struct buf *b);

/* --- x->log --- */

/* The log has @size bytes, ends with the last bytes of @b, and has all of the content of @x. */
void session_log_saved(struct session *x, const struct buf *b, uint64_t size);
/* The log of @x is the file @inode with @size valid bytes; count it. 0 or -ENOMEM (nothing changed). */
int session_log_place(struct session *x, uint64_t inode, uint64_t size);
/* @x has no log; the name of its file was removed. */
void session_log_drop(struct session *x);
/* @x has no log; its file stays and is counted until someone else removes it. */
void session_log_leave(struct session *x);
