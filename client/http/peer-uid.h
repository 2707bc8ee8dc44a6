/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The uid at the other end of a connection of this machine. For a Unix socket it is that of the process that connected
 * (SO_PEERCRED). For TCP over loopback the kernel is asked for the socket with the two addresses in reverse
 * (NETLINK_SOCK_DIAG): its uid is that of the process that opened it.
 *
 * The answer counts only if that socket is still established and owned by a process: the kernel reports the uid 0 for a
 * socket that its process has closed. Our own end must be established afterwards. Otherwise another process could have
 * taken the same port after a reset.
 *
 * A netlink socket sees the network namespace in which it was opened, and shows uids of its opener's user namespace.
 * The service manager therefore opens it for a service that has namespaces of its own.
 */
#include "client/http/http-listen.h"
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct peer_uids {
    int fd;       /* not owned; -1: owners of TCP connections cannot be found */
    uint32_t seq; /* of the last question */
};

/* Use the netlink socket of @l, or open one and store it there. Try it with each TCP listener of @l; if it does not
 * find one of them, log the reason, and p->fd is -1. */
void peer_uids_init(struct peer_uids *p, struct listeners *l);

/* Find the uid of the other end, at @address, of the accepted socket @fd. 0; 1: the kernel does not tell, because p->fd
 * is -1; -ESRCH: this connection has no owner here. */
int peer_uids_find(struct peer_uids *p, int fd, const struct sockaddr *address, uid_t *uid);
