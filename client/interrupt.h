/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * SIGINT as an error that travels: the first one makes waiting calls return -EINTR, a second one kills. Until
 * interrupt_block any blocking system call may be cut short by it; after, it is only taken inside interrupt_poll,
 * so that none is lost between a look at the flag and the wait.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

/* Installs the handler (not where the caller had SIGINT ignored, as a shell's background job) and ignores SIGPIPE. */
void interrupt_init(void);
/* @sig counts as SIGINT from now on (before interrupt_block), for who has something to put back before the end. */
void interrupt_also(int sig);
void interrupt_block(void);
void interrupt_unblock(void);
bool interrupted(void);

/* poll(); @deadline is of interrupt_now, -1 for none. The number of ready descriptors, 0 at the deadline, -EINTR when
 * interrupted, else -errno. */
int interrupt_poll(struct pollfd *fds, unsigned n, int64_t deadline);

/* CLOCK_MONOTONIC in ms. */
int64_t interrupt_now(void);

/* Sleep; 0, or -EINTR when interrupted. */
int interrupt_sleep(int64_t ms);

/* Take note of the interrupt as dealt with: calls wait again (a second SIGINT kills). */
void interrupt_clear(void);
