/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * SIGINT as an error: the first one makes blocking calls return -EINTR, the second one kills. Before interrupt_block it
 * may interrupt any blocking system call; after it, only interrupt_poll, so that no signal is lost between the check of
 * the flag and the wait.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

/* Install the handler, unless the caller ignores SIGINT (as a shell does for background jobs), and ignore SIGPIPE. */
void interrupt_init(void);
/* Treat @sig as SIGINT; call before interrupt_block. For callers with cleanup before the end. */
void interrupt_also(int sig);
void interrupt_block(void);
void interrupt_unblock(void);
bool interrupted(void);

/* poll() until @deadline (see interrupt_now; -1: none). The number of ready descriptors; 0 at the deadline; -EINTR if
 * interrupted; else -errno. */
int interrupt_poll(struct pollfd *fds, unsigned n, int64_t deadline);

/* CLOCK_MONOTONIC in ms. */
int64_t interrupt_now(void);

/* Sleep; 0, or -EINTR when interrupted. */
int interrupt_sleep(int64_t ms);

/* Clear the interrupt: calls block again. A second SIGINT kills. */
void interrupt_clear(void);
