/* SPDX-License-Identifier: MIT */
#pragma once
#include <stddef.h>
/* hobd's subcommands. Each gets its own argv (argv[0] is the command's name), prints its result to standard output and
 * errors to standard error, and returns the exit code: 0, 1 failed, 2 usage. */
int command_serve(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_perplexity(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_template(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_simulate(int argc, char **argv);

/* "hobd COMMAND: SENTENCE" for the error @r on standard error. Return the exit code: 1; 2. */
int command_failed(char **argv, int r);
int command_misused(char **argv, int r);

/* @text[@n] to standard output: as it is, but to a terminal as plain_text() has it. 0, or -errno with a sentence. */
int command_print(const char *text, size_t n);

/* What getopt_long refused: @c is its '?' or ':'. opterr has to be 0. Returns -EINVAL with a sentence. */
int command_refuse(char **argv, int c);

/* Of inspect --supported: 0, or -EIO with a sentence. */
int print_supported(void);
