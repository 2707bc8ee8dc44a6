/* SPDX-License-Identifier: MIT */
#pragma once
/* Formats the daemon's session JSON for people. All functions append to @out. 0; -EBADMSG: not as in hob-protocol(7);
 * sets the error message; -ENOMEM. */
#include "libcommon/buf.h"
#include <stdint.h>

/* The answer to session.list as a table of @width columns (0: unlimited); @now, in seconds since the epoch, is for the
 * ages. Nothing for an empty list. */
int sessions_view_list(struct buf *out, const char *json, size_t len, int64_t now, unsigned width);

/* Append a line with the total size of the user's sessions and its limit, from the daemon's status; nothing if it has
 * neither. 0; -EBADMSG; sets the error message; -ENOMEM. */
int sessions_view_sum(struct buf *out, const char *json, size_t len);

/* The answer to session.show as a conversation: "[user]" on its own line, then the text; the same for "[thinking]",
 * "[call NAME]" and "[tool NAME]"; of a raw session the text unchanged. */
int sessions_view_show(struct buf *out, const char *json, size_t len);

/* "12 s ago"; a date for more than 59 days; "just now" also for a time in the future. @out: at least 16 bytes. */
const char *sessions_view_age(char *out, int64_t then, int64_t now);
