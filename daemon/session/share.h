/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Forks share the logs of their parents. The fork's log names up to SESSION_BASES bases, and next to it HASH.b0 … are
 * hard links to the files: the bases of the parent, then the parent's log. The fork uses the first bytes of each, up to
 * the end of a synced record. The parent may append to its log, rewrite, rename or remove it: the bytes exist as long
 * as a link does.
 *
 * The links are synced before the log that names them gets its name. The next start removes links that no log names.
 */
#include "daemon/session/log.h"

/* Prepare @dst (empty, without a log) to share the log of @src if that saves disk space. Writes nothing. */
void session_share_begin(struct session *dst, const struct session *src);

/* Write the first log of @x with bases: those of session_share_begin (@from is @x), or those of @from (@x replaces it).
 * @delta: add a turn record with the content of @from that its log lacks. 0; 1: sharing is not possible, no file is
 * left; -errno as session_log_publish. */
int session_share_write(int dir, struct session *x, const struct session *from, bool delta);

/* Unlink the bases of @x; it has none after. */
void session_share_drop(int dir, struct session *x);

/* --- the record --- */

struct session_bases {
    struct session_base list[SESSION_BASES]; /* [n]; inodes are 0 */
    uint32_t n;
    bool outcomes; /* outcomes and error message of the last base apply: the session was renamed, not forked */
};

/* Append the payload. 0 or -ENOMEM. */
int session_bases_write(struct buf *out, const struct session_bases *b, const struct session_summary *s);
/* 0 or -EBADMSG. */
int session_bases_read(struct session_bases *out, const uint8_t *p, size_t n);
