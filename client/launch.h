/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Starts one daemon per model, under a lock beside its socket, in a session of its own, with no open descriptors of the
 * client. Its standard error goes to a log in the state directory, or to memory if the log cannot be written, so that
 * the client can report a failure.
 */

/*
 * Start hobd for @model (a name or a path) at @socket, or connect to a daemon that another process has started
 * meanwhile. Returns the connected descriptor, which the caller owns; -EINTR; -ENOENT: no such model, no hobd;
 * -ENOEXEC: hobd cannot load the model, or start for another reason, which is the error message; -ECHILD: it exited
 * otherwise, and the error message has its last line; -ETIMEDOUT; else -errno; sets the error message.
 */
int launch_daemon(const char *model, const char *socket);

/* Find hobd for a hob in @exe_dir: in @exe_dir, else in its ../daemon, else in the list @path (may be NULL). The caller
 * owns *out. 0; -ENOENT or -ENOMEM; sets the error message. */
int launch_find(const char *exe_dir, const char *path, char **out);

/* The same for this program and $PATH. */
int launch_hobd(char **out);

/* Replace this program by hobd with the arguments @argv; argv[0] is set. Returns only if that fails: -ENOENT: no hobd;
 * else -errno; sets the error message. */
int launch_tool(char **argv);

/* The last non-empty line of the file @log, without its newline and without the prefix "hobd: ". The caller owns *out.
 * 0; -ENODATA: none; else -errno. */
int launch_last_line(const char *log, char **out);
