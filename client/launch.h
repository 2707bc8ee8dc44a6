/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Starting a daemon, once: under a lock beside its socket, in a session of its own, with nothing of ours open. What it
 * says until it can be connected to goes into a log in the state directory, or where that cannot be written into
 * memory, so that a failure can be told.
 */

/*
 * Start hobd for @model (a name, or a path) at @socket, or connect to the one that somebody else has started
 * meanwhile. The connected descriptor, owned by the caller; -EINTR; -ENOENT: no such model, no hobd; -ECHILD: it
 * ended, its last words are in the sentence; -ETIMEDOUT; else -errno; with sentences.
 */
int launch_daemon(const char *model, const char *socket);

/* The hobd that belongs to a hob in @exe_dir: there, else in ../daemon of it, else in $PATH's list @path (may be NULL).
 * *out is the caller's. 0; -ENOENT with a sentence; -ENOMEM. */
int launch_find(const char *exe_dir, const char *path, char **out);

/* The last line with something in it of the file @log, without its newline and without "hobd: " in front; *out is
 * the caller's. 0; -ENODATA: there is none; else -errno. */
int launch_last_words(const char *log, char **out);
