/* SPDX-License-Identifier: MIT */
#pragma once
/* Writing whole logs, for load.c and duplicate.c. */
#include "daemon/session/store.h"

/* Write a new log for @x with all of the content of @from (@x itself, or the session that @x replaces). 0: x->log is up
 * to date; -EEXIST (message): @x has no log but the file exists; -errno. */
int session_log_write(int dir, struct session *x, const struct session *from);

/* Write the first log of @x with bases: those of session_share_begin (@from is @x), or those of @from (@x replaces it).
 * @delta: add a turn record with the content of @from that its log lacks. 0; 1: sharing is not possible, no file is
 * left; -errno as session_log_publish. */
int session_share_write(int dir, struct session *x, const struct session *from, bool delta);
