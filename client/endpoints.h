/* SPDX-License-Identifier: MIT */
#pragma once
/* The sockets at which a daemon may listen, in the order in which they are tried. */
#include "client/options.h"

struct endpoints {
    const char *model; /* as given, or "default"; not owned */
    char *fixed;       /* $HOB_SOCKET: the only place then; else NULL */
    char *user;        /* NULL: the user has none (no runtime directory) */
    char *system;
};

/* 0; -EINVAL: invalid model name; -ENOMEM; sets the error message. Call endpoints_fini in any case. */
int endpoints_find(struct endpoints *p, const struct options *o);
void endpoints_fini(struct endpoints *p);

/* Connect to a running daemon. Returns the descriptor, which the caller owns; -ENOENT: none runs; -EACCES: no
 * permission; else -errno; sets the error message, which includes the remedy. */
int endpoints_connect(const struct endpoints *p);

/* As endpoints_connect; if no daemon runs and HOB_SOCKET is not set, start one. Also -EINTR. */
int endpoints_connect_or_start(const struct endpoints *p);
