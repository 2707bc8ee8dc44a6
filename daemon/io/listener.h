/* SPDX-License-Identifier: MIT */
#pragma once
/* Where connections come from: a socket that systemd handed us, which stays as it is, or one of our own. */
#include <stdbool.h>
#include <sys/types.h>

struct listener {
    int fd;     /* listening, non-blocking; -1: none (any more) */
    char *path; /* for messages, "(inherited)" when it cannot be told; owned */
    bool inherited;
    bool linked; /* there is a file that we made and have to remove */
    dev_t dev;   /* which one */
    ino_t inode;
};

#define LISTENER_INIT                                                                                                  \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

/* Take the one socket of LISTEN_FDS. 0; 1 when there is none; -EINVAL with a sentence when it is not one that
 * hobd can serve (or there are several). Unsets the variables. */
int listener_inherit(struct listener *l);

/* Listen at @path with @mode. 0 or what sock_listen says. */
int listener_make(struct listener *l, const char *path, mode_t mode);

/* Take our own socket's file away, if it is still ours: from now on a new daemon may listen there. What has
 * connected already can still be accepted. Does nothing to an inherited one. */
void listener_retire(struct listener *l);

/* @fd has connected and will not be served: it gets one event with the number and the sentence of the error @r, and is
 * closed. */
void listener_turn_away(int fd, int r);
/* The same for a user who connects too often: the message is made once, so that this costs little. */
void listener_turn_away_often(int fd);
/* The same for all that wait. */
void listener_turn_all_away(struct listener *l, int r);

/* listener_retire, and close. */
void listener_fini(struct listener *l);
