/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Stop strings in a stream of text. What could still become a stop string is held back; a stop string is never shown,
 * not even half. The first one to be complete ends the answer (of two that end at the same byte, the longer), so the
 * result does not depend on how the text was cut into pieces.
 */
#include "libcommon/buf.h"
#include "libcommon/proto.h"
#include <stdbool.h>

struct stop {
    const struct proto_text *strings; /* [n], none of them empty; must outlive this */
    size_t n;
    struct buf held;
};

void stop_fini(struct stop *s);

/* Append to @out what of the held text and @text can be shown. 0; 1: a stop string was found, @out has what stood
 * before it and the rest is dropped; -ENOMEM. Stop strings that are valid UTF-8 never make @out end inside a character
 * of valid text. */
int stop_feed(struct stop *s, const char *text, size_t len, struct buf *out);

/* The end of the text: what was held is shown after all. 0 or -ENOMEM. */
int stop_flush(struct stop *s, struct buf *out);
