/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What `hobd serve` can be told: on its command line, and in hobd.conf (every key there is a long option). The command
 * line wins over $HOB_SOCKET, that over the file, the file over the defaults.
 */
#include "daemon/engine/engine.h"
#include "libcommon/buf.h"
#include "libcommon/log.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct options {
    struct engine_config engine; /* its strings are set by options_resolve and owned here */
    char *model;                 /* as given; "default" */
    char *socket;                /* NULL: the place of the model's socket */
    bool system;                 /* system places, and a socket for the group */
    bool no_sandbox;             /* --confine no */
    bool no_packed_file;         /* keep the packed weights in memory only */
    uint64_t client_bytes;       /* of all connections; 0: a share of memory */
    uint64_t idle_exit_usec;     /* 0: never */
    uint64_t stop_timeout_usec;
    enum log_level log_level;
};

/* The defaults of hobd.conf(5). 0 or -ENOMEM. */
int options_init(struct options *o);
void options_fini(struct options *o);

/* One setting by its long name; @value NULL for one that takes none. 0, -ENOMEM, or -EINVAL with a sentence that names
 * it. */
int options_set(struct options *o, const char *key, const char *value);

/* hobd.conf at @path on top of what is set. 0, also when there is no such file; -EINVAL with FILE:LINE in the sentence.
 */
int options_read_file(struct options *o, const char *path);

enum options_outcome { OPTIONS_RUN = 0, OPTIONS_HELP, OPTIONS_VERSION };

/* The command line and everything below it. An options_outcome; -EINVAL for what the user wrote wrongly; else -errno.
 */
int options_load(struct options *o, int argc, char **argv);

/* Find the model's name and file, and its directories. 0 or -errno with a sentence. */
int options_resolve(struct options *o);

/* @fresh was loaded as @o was, later: what can change in a daemon that runs is taken over into @o. The names of what
 * was, and of what differs still, are appended with commas between. 0; -ENOMEM, and @o is as it was. */
int options_take(struct options *o, const struct options *fresh, struct buf *taken, struct buf *pending);

/* The options, a line or more each, for --help. */
void options_help(FILE *f);
