/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Forks share the logs of their parents. The fork's log names up to SESSION_BASES bases, and next to it HASH.b0 … are
 * hard links to the files: the bases of the parent, then the parent's log. Of each the fork uses the first bytes, up to
 * the end of a record that was synced. The parent may append to its log, write it anew, give it another name or remove
 * it: the bytes stay as long as a link does.
 *
 * The links are synced before the log that names them is there; a link that no log names is removed at the next start.
 */
#include "daemon/cache/session-log.h"

/* Make @dst (empty, without a log) ready to share what @src's log says, if it is worth it. Nothing on disk. */
void session_share_begin(struct session *dst, const struct session *src);

/* Write x's first log so that it shares: what session_share_begin has set (@from is x), or what @from has (x replaces
 * it). @delta: a turn record says what @from is beyond its log. 0; 1: it cannot be shared, nothing is left of it;
 * -errno as session_log_publish. */
int session_share_write(int dir, struct session *x, const struct session *from, bool delta);

/* Remove x's names for its bases, of which it has none then. */
void session_share_drop(int dir, struct session *x);

/* HASH.b0 … */
void session_base_name(char out[SESSION_LOG_NAME], const uint8_t hash[16], uint32_t i);

/* --- the record --- */

struct session_bases {
    struct session_base list[SESSION_BASES]; /* [n]; without inodes */
    uint32_t n;
    bool outcomes; /* those of the last base stay, and why its last turn failed: it was renamed */
};

int session_bases_write(struct buf *out, const struct session_bases *b, const struct session_summary *s);
/* 0 or -EBADMSG. */
int session_bases_read(struct session_bases *out, const uint8_t *p, size_t n);
