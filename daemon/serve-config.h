/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The settings of `hobd serve`: from its command line, and from hobd.conf, where every key is a long option. The
 * command line overrides $HOB_SOCKET, which overrides the file, which overrides the defaults.
 */
#include "daemon/engine/engine.h"
#include "libcommon/buf.h"
#include "libcommon/log.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct options {
    struct engine_config engine; /* options_resolve sets its strings, which belong to this struct */
    char *model;                 /* as given; "default" */
    char *socket;                /* NULL: the default path of the model's socket */
    bool system;                 /* use the system's directories, and a socket for the group */
    struct device_choice device; /* as given; engine.device is the one that opens */
    char *mmproj;                /* image encoder; "none"; NULL: the file beside the model, if there is one */
    char *draft;                 /* draft model, as given; "none"; NULL: the model's MTP layer */
    char *adapters;              /* a line NAME=FILE for each; NULL: none but those beside the model */
    char *gateways;              /* names or uids; "none"; NULL: the default */
    bool no_sandbox;             /* --confine no */
    uint64_t client_bytes;       /* of all connections; 0: a share of memory */
    uint64_t idle_exit_usec;     /* 0: never */
    uint64_t stop_timeout_usec;
    enum log_level log_level;
};

/* The defaults of hobd.conf(5). 0 or -ENOMEM. */
int options_init(struct options *o);
void options_fini(struct options *o);

/* Set one option by its long name; @value is NULL for an option without a value. 0; -ENOMEM; -EINVAL: the error message
 * names the option. */
int options_set(struct options *o, const char *key, const char *value);

/* Read hobd.conf at @path; its settings override those in @o. 0, also if the file does not exist; -EINVAL: the error
 * message has FILE:LINE. */
int options_read_file(struct options *o, const char *path);

enum options_outcome { OPTIONS_RUN = 0, OPTIONS_HELP, OPTIONS_VERSION };

/* Read the command line and all other sources. Returns an options_outcome; -EINVAL: wrong usage; else -errno. */
int options_load(struct options *o, int argc, char **argv);

/* Find the model's name and file, and its directories. 0; else -errno; sets the error message. */
int options_resolve(struct options *o);

/* Take over from @fresh, which was loaded like @o but later, all options that can change in a running daemon. Appends
 * to @taken the names of the changed options and to @pending the names of options that still differ, separated by
 * commas. 0; -ENOMEM: @o is unchanged. */
int options_take(struct options *o, const struct options *fresh, struct buf *taken, struct buf *pending);

/* Print the options for --help, one or more lines each. */
void options_help(FILE *f);
