/* SPDX-License-Identifier: MIT */
#pragma once
/* The listening socket: inherited from systemd, which keeps it, or made by hobd. */
#include <stdbool.h>
#include <sys/types.h>

struct listener {
    int fd;     /* listening, non-blocking; -1: none, or closed */
    char *path; /* for messages, "(inherited)" when unknown; owned */
    bool inherited;
    bool linked; /* hobd made the file and has to remove it */
    dev_t dev;   /* identity of that file */
    ino_t inode;
};

#define LISTENER_INIT                                                                                                  \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

/* Take the one socket of LISTEN_FDS. 0; 1 when there is none; -EINVAL with a message when hobd cannot serve
 * it, or when several exist. Unsets the variables. */
int listener_inherit(struct listener *l);

/* Listen at @path with @mode. 0 or an error of sock_listen. */
int listener_make(struct listener *l, const char *path, mode_t mode);

/* Remove the file of a socket that hobd made, if it is still the same: a new daemon may listen there now. Connections
 * that wait can still be accepted. Does nothing to an inherited socket. */
void listener_retire(struct listener *l);

/* Refuse the connection @fd: send one event with the number and message of the error @r, and close it. */
void listener_turn_away(int fd, int r);
/* The same for a user who connects too often: the message is made once, so that this costs little. */
void listener_turn_away_often(int fd);
/* Refuse all connections that wait in the socket. */
void listener_turn_all_away(struct listener *l, int r);

/* listener_retire, and close. */
void listener_fini(struct listener *l);
