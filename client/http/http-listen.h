/* SPDX-License-Identifier: MIT */
#pragma once
/* The sockets at which hob-http accepts connections. */
#include "client/http/http-options.h"

enum { LISTENERS_MAX = 16 };

struct listeners {
    int fds[LISTENERS_MAX]; /* owned, non-blocking */
    unsigned n;
    int diag; /* owned: a netlink socket for questions about connections; -1: none */
};

struct addrinfo;

/* The address of "ADDR:PORT" or "[ADDR]:PORT". 0, and *out for freeaddrinfo; -EINVAL and the error message. */
int listen_address(const char *text, struct addrinfo **out);

/* Take the sockets of the service manager (LISTEN_FDS), of which one may be of NETLINK_SOCK_DIAG, else open those of
 * @o, and log the address of each. @keys: the clients need keys, without which only loopback addresses and Unix sockets
 * are allowed. 0; -EACCES: an address needs keys; -EINVAL: not an address; else -errno; sets the error message. Call
 * listeners_fini in any case. */
int listeners_open(struct listeners *l, const struct http_options *o, bool keys);
void listeners_fini(struct listeners *l);
