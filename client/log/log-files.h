/* SPDX-License-Identifier: MIT */
#pragma once
/* Where the log is, and the program that reads and writes it. */
#include <limits.h>
#include <stdbool.h>

/* The database log.db in the user's state directory. The caller frees *out. 0; -errno: sets the error message. */
int log_files_database(char **out);

/*
 * Lock log.lock beside the database. A hob that starts a writer holds it shared, and so does the writer until it exits.
 * A reader takes it exclusively for a moment (@wait), so that it finds the exchanges of the calls before it. After two
 * seconds the reader continues without it. Returns a descriptor, which the caller closes; or -errno; sets the error
 * message.
 */
int log_files_lock(bool wait);

/* Write the path of hob-log, beside this program or in HOB_LIBEXEC, to @out. 0; -ENOENT: it is not installed; sets the
 * error message. */
int log_files_program(char out[static PATH_MAX + 16]);
