/* SPDX-License-Identifier: MIT */
#pragma once
/* What the daemon tells of sessions, JSON as text, for people. All append to @out; 0; -EBADMSG with a sentence: it is
 * not what hob-protocol(7) says; -ENOMEM. */
#include "libcommon/buf.h"
#include <stdint.h>

/* The array that answers session.list, as a table that is @width columns wide (0: as wide as it is), with its ages at
 * @now (seconds since the epoch). Nothing for an empty one. */
int sessions_view_list(struct buf *out, const char *json, size_t len, int64_t now, unsigned width);

/* Append the sum of the asker's sessions and the limit, a line, out of the daemon's status; nothing when there are
 * none, or it does not tell. 0; -EBADMSG with a sentence; -ENOMEM. */
int sessions_view_sum(struct buf *out, const char *json, size_t len);

/* The object that answers session.show, as a conversation: "[user]" on a line of its own, then what was said; of a raw
 * session its text as it is. */
int sessions_view_show(struct buf *out, const char *json, size_t len);

/* "12 s ago"; a day further back than 59 of them; "just now" also for a time to come. @out: at least 16 bytes. */
const char *sessions_view_age(char *out, int64_t then, int64_t now);
