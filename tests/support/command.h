/* SPDX-License-Identifier: MIT */
#pragma once
/* A command of hobd as a test runs it: its output, its errors, its exit codes. Every function asserts its own success.
 */
#include "libcommon/buf.h"

/* What the functions below run: "@hobd @name". Neither is copied. */
void command_init(const char *hobd, const char *name);

/* Runs it with @args (NULL-terminated) and @in. Returns the exit code. @out and @err receive its output; the caller
 * frees both. */
int command_run(const char *const *args, const char *in, struct buf *out, struct buf *err);
/* Expects exit code 0, @want on standard output, and nothing on standard error. */
void command_says(const char *in, const char *want, const char *const *args);
/* Expects this exit code, an empty standard output, and one line on standard error that contains @word. */
void command_fails(int code, const char *in, const char *word, const char *const *args);

#define FAILS(code, in, word, ...) command_fails(code, in, word, (const char *const[]){__VA_ARGS__, NULL})
