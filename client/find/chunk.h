/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Cuts a text into chunks, the units of an index.
 *
 * A chunk has at most CHUNK_LINES whole lines and CHUNK_BYTES bytes. It ends after a blank line where its second half
 * has one; otherwise the next chunk repeats its last CHUNK_OVERLAP lines. A line of more than CHUNK_BYTES bytes becomes
 * several chunks. Blank lines at the begin of a chunk are left out, and so are chunks of white space.
 */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    CHUNK_LINES = 24,
    CHUNK_OVERLAP = 4,
    CHUNK_BYTES = 1200, /* most often under the 512 tokens that models of the BERT family read */
};

struct chunk {
    uint32_t first, last; /* its lines, counted from 1 */
    const char *text;     /* points into the text that is cut */
    size_t len;
};

struct chunker {
    const char *at, *end; /* what is left of the text */
    const char *new;      /* what is before it was in the last chunk */
    uint32_t line;        /* number of the line at @at */
};

/* Begin with @text[@len], which must outlive @c. */
void chunker_init(struct chunker *c, const char *text, size_t len);

/* The next chunk; false: none is left. */
bool chunk_next(struct chunker *c, struct chunk *out);

/* False: @text[@len] is binary: it has a NUL, or over an eighth of its first 8 KiB is not UTF-8. */
bool chunk_is_text(const char *text, size_t len);

/* Append @text[@len]; bytes that are not UTF-8 become U+FFFD. 0 or -ENOMEM. */
int chunk_put_utf8(struct buf *out, const char *text, size_t len);
