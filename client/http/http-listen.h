/* SPDX-License-Identifier: MIT */
#pragma once
/* The sockets at which hob-http accepts connections. */
#include "client/http/http-options.h"

enum { LISTENERS_MAX = 16 };

struct listeners {
    int fds[LISTENERS_MAX]; /* owned, non-blocking */
    unsigned n;
};

/* Take the sockets of the service manager (LISTEN_FDS), else open those of @o, and log the address of each. @keys: the
 * clients need keys, without which only loopback addresses and Unix sockets are allowed. 0; -EACCES: an address needs
 * keys; -EINVAL: not an address; else -errno; sets the error message. Call listeners_fini in any case. */
int listeners_open(struct listeners *l, const struct http_options *o, bool keys);
void listeners_fini(struct listeners *l);
