/* SPDX-License-Identifier: MIT */
#pragma once
#include "libcommon/buf.h"
/* The subcommands of hobd. Each gets its own argv (argv[0] is the name of the command), prints its result to standard
 * output and errors to standard error, and returns the exit code: 0, 1 failed, 2 usage. */
int command_serve(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_perplexity(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_constrain(int argc, char **argv);
int command_template(int argc, char **argv);
int command_parse(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_simulate(int argc, char **argv);
int command_media(int argc, char **argv);
int command_encode(int argc, char **argv);
int command_embed(int argc, char **argv);

/* Prints "hobd COMMAND: MESSAGE" for the error @r to standard error. Returns the exit code, 1 or 2. */
int command_failed(char **argv, int r);
int command_misused(char **argv, int r);

/* Writes @text[@n] to standard output: unchanged, but on a terminal as plain_text() converts it. 0 or -errno; sets the
 * error message. */
int command_print(const char *text, size_t n);

/* Appends standard input to @b, at most 1 GiB. 0 or -errno; sets the error message. */
int command_read_input(struct buf *b);

/* Reports an option that getopt_long refused; @c is its '?' or ':'. opterr must be 0. Returns -EINVAL; sets the error
 * message. */
int command_refuse(char **argv, int c);

/* For inspect --supported: 0, or -EIO; sets the error message. */
int print_supported(void);
