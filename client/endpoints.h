/* SPDX-License-Identifier: MIT */
#pragma once
/* Where a daemon may be, in the order in which it is tried. */
#include "client/options.h"

struct endpoints {
    const char *model; /* as given, or "default"; not owned */
    char *fixed;       /* $HOB_SOCKET: the only place then; else NULL */
    char *user;        /* NULL: the user has none (no runtime directory) */
    char *system;
};

/* 0; -EINVAL (no model can have that name) or -ENOMEM, with a sentence. endpoints_fini in any case. */
int endpoints_find(struct endpoints *p, const struct options *o);
void endpoints_fini(struct endpoints *p);

/*
 * Connect to the daemon that runs. The descriptor, owned by the caller; -ENOENT: there is none; -EACCES: there is one,
 * but not for us; else -errno; with a sentence that says what to do.
 */
int endpoints_connect(const struct endpoints *p);

/* endpoints_connect; where that finds none and $HOB_SOCKET does not forbid it, a daemon is started. -EINTR, too. */
int endpoints_connect_or_start(const struct endpoints *p);
