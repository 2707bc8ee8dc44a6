/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Paths of hob's files (XDG for a user; /run, /var and /etc for the system). Every function that returns int sets *out
 * to an allocated string on 0, which the caller frees. Errors: -ENOMEM; -ENOENT or -EINVAL (no HOME, a relative XDG
 * path, a name with a slash, …); sets the error message.
 */
#include <stdbool.h>

enum paths_kind {
    PATHS_RUNTIME, /* sockets, locks; without XDG_RUNTIME_DIR: /run/user/UID/hob, else /tmp/hob-UID (made with mode 0700
                      and checked) */
    PATHS_STATE,
    PATHS_CACHE,
    PATHS_MODELS,
    PATHS_CONFIG,
};

/* The hob directory of @kind: $XDG_…/hob (PATHS_MODELS: …/hob/models), or the system's. The daemon's $STATE_DIRECTORY,
 * $CACHE_DIRECTORY, $RUNTIME_DIRECTORY and $CONFIGURATION_DIRECTORY take precedence if systemd has set them. The latter
 * two count only if their last component is "hob", because a client inside another service sees them, too. */
int paths_dir(enum paths_kind kind, bool system, char **out);

/* The name under which a model's socket and directories are stored: @model itself if it is a name. Else (it has a slash
 * or ends in .gguf) its base name without .gguf, a dash and 8 hex digits of a hash of the absolute path (directory
 * resolved, last component not). A name has 1 … 64 bytes, no control characters and no leading dot. */
int paths_model_name(const char *model, char **out);

/* The .gguf file of @model: the path itself, or NAME.gguf in the user's (or system's) models folder, then
 * /usr/share/hob/models. The error message of -ENOENT lists the tried paths. */
int paths_model_file(const char *model, bool system, char **out);

/* DIR/MODEL.sock of the user or the system. The caller handles HOB_SOCKET. */
int paths_socket(const char *model, bool system, char **out);

/* Write the directory of this program's file to @out [PATH_MAX]. False: it is unknown. */
bool paths_program_dir(char *out);

/* Like mkdir -p; new directories have mode 0700, and their names are synced. */
int paths_make(const char *dir);
