/* SPDX-License-Identifier: MIT */
#pragma once
/* hob status and hob stop: what can be asked of a daemon that runs; none is started. */
#include "client/options.h"
#include "libcommon/buf.h"

/* Both return the exit status. */
int status_run(const struct options *o);
int status_stop(const struct options *o);

/* The daemon's status, a JSON object as text, for people: a line a value, what is inside of an object or array
 * indented, values of bytes_… and …_bytes as sizes; the objects under "uids" as rows; appended to @out. *status is the
 * exit status that its "state" means. 0; -EBADMSG with a sentence; -ENOMEM. */
int status_format(struct buf *out, const char *json, size_t len, int *status);
