/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Closes descriptors that a peer chose, and sockets on which unread descriptors may lie. Of a FUSE file, or a socket
 * that lingers, close(2) may wait as long as the peer likes, so it runs in threads. Those of one user wait in a queue
 * of their own, which has a few threads: a user delays no other. Threads are detached and end with the process.
 */
#include <stddef.h>
#include <sys/types.h>

enum { CLOSE_APART_MAX = 2048 /* descriptors of a user that wait, at which hobd takes no more from that user */ };

/* Takes @fd, which user @uid sent, and returns at once. Without memory for the queue it closes @fd here. */
void close_apart(int fd, uid_t uid);
/* The same for a connection's socket, which is shut down first: the peer sees the end at once. */
void close_apart_socket(int fd, uid_t uid);
/* Descriptors of @uid that are not closed yet. */
size_t close_apart_waiting(uid_t uid);
