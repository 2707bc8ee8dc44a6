/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A connection to a daemon for one HTTP request. It never blocks: events arrive through the event loop. Closing it
 * cancels the request, because a daemon cancels the requests of a closed connection.
 */
#include "libcommon/proto.h"
#include <stdbool.h>
#include <systemd/sd-event.h>

struct upstream;

/* An event of the daemon other than hello, or NULL: the connection has ended, and error_text(@r) has the reason (@r is
 * negative). The receiver does not own @e, but may take its texts. It may call upstream_close. */
typedef void (*upstream_fn)(void *ctx, struct proto_event *e, int r);

/* Connect to the socket at @path for the user @user (NULL: the uid of this process), and send @request. 0: the caller
 * owns *out. -ENOENT: no daemon listens there; -EAGAIN: the daemon does not accept connections fast enough; -EMSGSIZE:
 * the request is over a limit of the protocol; else -errno; sets the error message. */
int upstream_open(struct upstream **out, sd_event *event, const char *path, const char *user,
                  const struct proto_request *request, upstream_fn fn, void *ctx);

/* Close the connection and free @u, which may be NULL. Returns NULL. */
struct upstream *upstream_close(struct upstream *u);

/* While paused, no events arrive, so that the daemon pauses the answers of this connection. */
void upstream_pause(struct upstream *u, bool paused);
