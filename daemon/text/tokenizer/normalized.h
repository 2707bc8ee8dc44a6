/* SPDX-License-Identifier: MIT */
#pragma once
/* A text after normalization, which knows where each of its bytes ends in the source. */
#include "libcommon/buf.h"
#include <stdint.h>

/* Bytes. A replacement may be much longer than what it replaces, and the search for tokens takes about 24 bytes of
 * memory for each byte. */
#define NORMALIZED_MAX (64u << 20)

struct normalized {
    struct buf text;
    uint32_t *ends; /* [text.len] */
    size_t cap;
};

void normalized_fini(struct normalized *n);
/* Appends bytes that come from the source before its byte @end. 0, -ENOMEM, or -E2BIG and the error message: the text
 * grows over NORMALIZED_MAX. */
int normalized_push(struct normalized *n, const char *s, size_t len, uint32_t end);
