/* SPDX-License-Identifier: MIT */
#pragma once
/* A request to a daemon about one session. While another request uses the session, it is repeated for some time. */
#include "client/http/exchange.h"

struct session_lookup;

/* The answer @e of the daemon: a sessions event with the JSON of the session, or ok. NULL: the session does not exist.
 */
typedef void (*session_lookup_fn)(struct exchange *x, const struct proto_event *e);

/* Send a request of @type, which is PROTO_SESSION_SHOW or PROTO_SESSION_REMOVE, about the session @name of the client's
 * key to the daemon at @socket. @fn gets the answer; another error is the response of @x. 0, and @x owns the lookup;
 * negative with x->fault. */
int session_lookup(struct exchange *x, const char *socket, enum proto_type type, const char *name,
                   session_lookup_fn fn);

/* Returns NULL, as does NULL. */
struct session_lookup *session_lookup_free(struct session_lookup *l);
