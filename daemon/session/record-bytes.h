/* SPDX-License-Identifier: MIT */
#pragma once
/* The numbers and bytes of which the payload of a record is made (session-log.h). */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stdint.h>

/* --- writing: append to @b. 0 or -ENOMEM --- */

int record_put(struct buf *b, uint64_t v); /* a number without a type */
int record_put_u64(struct buf *b, uint64_t v);
int record_put_bytes(struct buf *b, const void *p, size_t n);

/* --- reading --- */

/* The bytes not yet read. After an error none, and @bad is set. */
struct record_cursor {
    const uint8_t *p, *end;
    bool bad;
};

/* The functions return zero, NULL or "" after an error. Pointers point into the payload. */
const uint8_t *record_fixed(struct record_cursor *c, size_t n); /* @n bytes without a length */
uint64_t record_number(struct record_cursor *c);
uint64_t record_u64(struct record_cursor *c);
/* A count of things of at least @each bytes: no more of them than the bytes left can hold. */
size_t record_count(struct record_cursor *c, size_t each);
const char *record_bytes(struct record_cursor *c, size_t *len);
