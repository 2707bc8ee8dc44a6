/* SPDX-License-Identifier: MIT */
#pragma once
/* Base64 of RFC 4648, strictly: with its padding, without white space, and with no other form of the same bytes. */
#include "libcommon/buf.h"
#include <stddef.h>
#include <stdint.h>

/* Decode @s [@n] to @out, which has room for n / 4 * 3 bytes; *len: bytes written. 0; -EINVAL without a message. */
int base64_decode(const char *s, size_t n, uint8_t *out, size_t *len);

/* Append the @n bytes at @p as base64 to @out. 0 or -ENOMEM. */
int base64_encode(struct buf *out, const void *p, size_t n);
