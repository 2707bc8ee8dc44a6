/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The error convention of hob.
 *
 * A function that can fail returns int: 0 is success; negative is -errno and means that the caller cannot continue and
 * passes it on; positive is an outcome that the function's comment names and the caller handles.
 *
 * The error message for the user is stored per thread, beside the number. The function that detects an error calls
 * error_say(). Its callers may prepend context with error_in(). The last caller (a command's main, the answer to a
 * peer) reads it with error_text(). A number without a message gets strerror's text.
 */
#include <errno.h>

/* Set this thread's message for the error @r (negative); returns @r. */
int error_say(int r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prepend "CONTEXT: " to the message for @r (strerror's if it has none); returns @r. */
int error_in(int r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The message for @r; belongs to this thread, valid until its next error_* call. Never NULL. */
const char *error_text(int r);

/* Drop this thread's message. A thread calls it before work that does not belong to what it did before, whose message
 * would otherwise explain a later error of the same number. */
void error_forget(void);

/* A system call failed with @r = -errno and there is no better message: drop a stale one. Returns @r. */
#define error_origin(r) error_origin_at((r), __FILE__, __LINE__)
int error_origin_at(int r, const char *file, int line);
