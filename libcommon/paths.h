/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Where things are (XDG for a user, /run /var /etc for the system). All functions that return int write an
 * allocated string to *out on 0, which the caller frees; they fail with -ENOMEM, or -ENOENT/-EINVAL; sets the error
 * message (no HOME, relative XDG path, a name with a slash…).
 */
#include <stdbool.h>

enum paths_kind {
    PATHS_RUNTIME, /* sockets, locks; no XDG_RUNTIME_DIR: /run/user/UID/hob, else /tmp/hob-UID (made, 0700, checked) */
    PATHS_STATE,
    PATHS_CACHE,
    PATHS_MODELS,
    PATHS_CONFIG,
};

/* The hob directory of @kind: $XDG_…/hob (PATHS_MODELS: …/hob/models), or the system's; the daemon's
 * $STATE_DIRECTORY, $CACHE_DIRECTORY, $RUNTIME_DIRECTORY, $CONFIGURATION_DIRECTORY win where systemd set them (the
 * latter two, which a client inside of some other service would see as well, only when their last component is "hob").
 */
int paths_dir(enum paths_kind kind, bool system, char **out);

/* MODEL, the name under which a model's socket and directories go: @model itself when it is a name, else (it has a
 * slash or ends in .gguf) its base name without .gguf, a dash and 8 hex digits of a hash of the absolute path (its
 * directory resolved, its last component not). A name has 1 … 64 bytes, no control characters and no dot in front. */
int paths_model_name(const char *model, char **out);

/* The .gguf file of @model: the path itself, or NAME.gguf in the user's (or system's) models folder, then
 * /usr/share/hob/models. The error message of -ENOENT lists the tried paths. */
int paths_model_file(const char *model, bool system, char **out);

/* DIR/MODEL.sock for this side (user's or system's); HOB_SOCKET is the caller's business. */
int paths_socket(const char *model, bool system, char **out);

/* mkdir -p with mode 0700 for what it makes. */
int paths_make(const char *dir);
