/* SPDX-License-Identifier: MIT */
#pragma once
/* hob status and hob stop. No daemon is started. */
#include "client/options.h"
#include "libcommon/buf.h"

/* Both return the exit status. */
int status_run(const struct options *o);
int status_stop(const struct options *o);

/*
 * Append the daemon's status, a JSON object, as text for people: one value per line, members of objects and arrays
 * indented, bytes_… and …_bytes as sizes, the objects under "uids" as rows. *status: the exit status for its "state".
 * 0; -EBADMSG; sets the error message; -ENOMEM.
 */
int status_format(struct buf *out, const char *json, size_t len, int *status);
