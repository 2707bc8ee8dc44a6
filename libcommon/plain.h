/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Untrusted text for people: names in a model file, messages of a peer, answers. A terminal would interpret its control
 * characters. All output to a terminal, to standard error or to a log passes through these functions. Output to a pipe
 * stays unchanged.
 *
 * Control characters become their pictures (U+2400…). Control characters beyond ASCII (U+0080 to U+009F), controls of
 * the writing direction (U+202A to U+202E, U+2066 to U+2069) and invalid UTF-8 become U+FFFD.
 */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* True if @cp is one of these characters. */
bool plain_commands(uint32_t cp);

/* Append @text[@n], which may have several lines and must not end inside a character: newline, tab, and the carriage
 * return of a line end are kept. 0 or -ENOMEM. */
int plain_text(struct buf *out, const char *text, size_t n);

/* The same for one line: newline, tab and carriage return become spaces. */
int plain_line(struct buf *out, const char *text, size_t n);

/* Like plain_line, but into @out[@cap], without allocating: as many whole characters as fit. Returns the number of
 * bytes; no NUL is added. */
size_t plain_into(char *out, size_t cap, const char *text, size_t n);

/* Write "BEFORE TEXT\n" to @f, TEXT as one line. */
void plain_print(FILE *f, const char *before, const char *text);
