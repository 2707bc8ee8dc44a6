/* SPDX-License-Identifier: MIT */
#pragma once
/* A small JSON writer and reader (RFC 8259). */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stddef.h>

#define JSON_DEPTH_MAX 64

/* Append a string in quotes; bytes that are not UTF-8 become U+FFFD. 0 or -ENOMEM. */
int json_put_string(struct buf *out, const char *s, size_t len);

/* Append @v with enough digits to restore the float; null if it is not finite. 0 or -ENOMEM. */
int json_put_float(struct buf *out, float v);

/* Append @v with three decimals; null if it is not finite. 0 or -ENOMEM. */
int json_put_ms(struct buf *out, double v);

enum json_kind {
    JSON_SCALAR, /* number, true, false, null: the text unchanged */
    JSON_STRING, /* escapes undone */
    JSON_OPEN,   /* an object or an array begins; its members come with depth + 1 */
    JSON_CLOSE,
};

struct json_item {
    enum json_kind kind;
    unsigned depth;   /* 0: the whole text's value */
    const char *key;  /* NULL: in an array, or the whole text's value; escapes undone */
    const char *text; /* NUL-terminated; "{" or "[" for JSON_OPEN and JSON_CLOSE */
    size_t len;       /* of text: a string may hold a NUL */
};

/* Called for each item; its strings are valid until it returns. A negative return stops the walk. */
typedef int (*json_fn)(void *ctx, const struct json_item *item);

/* 0; -EBADMSG: invalid JSON, or deeper than JSON_DEPTH_MAX; sets the error message; -ENOMEM; or the negative return of
 * @fn. */
int json_walk(const char *s, size_t len, json_fn fn, void *ctx);

/* Copies items as JSON text on one line. */
struct json_copy {
    struct buf *out;
    bool more; /* the open object or array has a member */
};

/* Append @item; for a json_fn that copies all items of a value. 0; -EBADMSG: a scalar that is not JSON; sets the error
 * message; -ENOMEM. */
int json_copy_item(struct json_copy *c, const struct json_item *item);

/* Append the JSON text @s as one line in which control characters are escaped. 0; -EBADMSG: as json_walk and
 * json_copy_item; -ENOMEM. */
int json_one_line(struct buf *out, const char *s, size_t len);
