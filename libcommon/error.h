/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The error convention of hob.
 *
 * A function that can fail returns int: 0 is success, negative is -errno and means "cannot go on here, pass it
 * on", positive is an outcome that the function's comment names and the caller handles.
 *
 * The sentence for the user travels beside the number, in this thread: the place that knows what is wrong calls
 * error_say(); places above it may put their own context in front with error_in(). Whoever ends the journey
 * (a command's main, the answer to a peer) takes it with error_text(). A number without a sentence is given
 * strerror's.
 */
#include <errno.h>

/* Set this thread's sentence for the error @r (negative); returns @r. */
int error_say(int r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "CONTEXT: " in front of the sentence for @r (strerror's when it has none); returns @r. */
int error_in(int r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The sentence for @r; belongs to this thread, valid until its next error_* call. Never NULL. */
const char *error_text(int r);

/* A system call failed with @r = -errno and there is no better sentence: forget a stale one. Returns @r. */
#define error_origin(r) error_origin_at((r), __FILE__, __LINE__)
int error_origin_at(int r, const char *file, int line);
