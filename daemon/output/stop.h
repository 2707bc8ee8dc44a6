/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Stop strings in a stream of text. Text that may become a stop string is held back; no part of a stop string is ever
 * shown. The first complete one ends the answer (of two that end at the same byte, the longer), so the result does not
 * depend on how the text is split.
 */
#include "libcommon/buf.h"
#include "libcommon/proto.h"
#include <stdbool.h>

/* {0} has no stop strings. */
struct stop {
    struct proto_text *strings; /* [n], none of them empty */
    size_t n;
    struct buf held;
};

/* Copies @strings [n], none of them empty. 0; -ENOMEM, and @s is {0}. */
int stop_init(struct stop *s, const struct proto_text *strings, size_t n);
void stop_fini(struct stop *s);

/* @to becomes a copy in the same state that shares nothing with @from. 0; -ENOMEM, and @to is {0}. */
int stop_clone(struct stop *to, const struct stop *from);

/* Append to @out the part of the held text and @text that can be shown. 0; 1: a stop string is complete, @out has the
 * text before it and the rest is dropped; -ENOMEM. If the stop strings are valid UTF-8, @out never ends inside a
 * character of valid text. */
int stop_feed(struct stop *s, const char *text, size_t len, struct buf *out);

/* The text ends: append the held text to @out. 0 or -ENOMEM. */
int stop_flush(struct stop *s, struct buf *out);
