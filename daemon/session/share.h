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
#include "daemon/session/record.h"

/* Can a fork share the log of @src, and does that save disk space? */
bool session_shareable(const struct session *src);
/* Make the bases of @src and its log the bases of @to, not linked yet. */
void session_share_take(struct session_log *to, const struct session *src);
/* Prepare @dst (empty, without a log) to share the log of @src if that saves disk space. Writes nothing. */
void session_share_begin(struct session *dst, const struct session *src);

/* Link all bases of @x and sync. 0; 1: one cannot be linked, and no link is left; -errno. *s: the summary of the last.
 */
int session_share_link(int dir, struct session *x, struct session_summary *s);
/* Remove these links; @x keeps its list of bases. */
void session_share_unlink(int dir, struct session *x);
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
