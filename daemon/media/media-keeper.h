/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The keeper is a process without a sandbox (hobd-decode keeper) that starts the helpers, also later, when hobd is in
 * its sandbox and can start no program. hobd asks it on a socket; each question is answered with the socket of a new
 * helper. It ends, after its helpers, when hobd closes the socket.
 */
#include <sys/types.h>

struct media_keeper {
    int fd; /* the socket; -1: it has ended */
    pid_t pid;
};

/* Start @program as a keeper. Returns 0, then call media_keeper_end; else -errno; sets the error message. */
int media_keeper_start(struct media_keeper *k, const char *program);

/* Start a helper. Returns its socket, which the caller owns; -ECANCELED: @stop is readable; -ENODATA: the keeper has
 * ended; else -errno; sets the error message. Waits at most 10 s. */
int media_keeper_ask(struct media_keeper *k, int stop);

/* Wait for the end of the keeper and its helpers, whose sockets are closed. After media_keeper_start, or of {.fd = -1}.
 */
void media_keeper_end(struct media_keeper *k);

/* What the keeper does: start "@program helper" for each question on the socket @fd, until it is closed. Returns the
 * exit status. */
int media_keeper_serve(int fd, const char *program);
