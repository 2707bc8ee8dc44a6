/* SPDX-License-Identifier: MIT */
#pragma once
/* Reads the members of one JSON object or array; a member that is an object or an array comes as JSON text. */
#include <stddef.h>

enum json_member_kind {
    MEMBER_SCALAR, /* a number, true, false or null: its text */
    MEMBER_STRING, /* escapes undone */
    MEMBER_OBJECT, /* JSON text on one line */
    MEMBER_ARRAY,  /* likewise */
};

struct json_member {
    const char *key; /* NULL: in an array */
    enum json_member_kind kind;
    const char *text; /* NUL-terminated */
    size_t len;       /* of text: a string may hold a NUL */
};

/* Called for each member; its strings are valid until it returns. A negative return ends the reading. */
typedef int (*json_member_fn)(void *ctx, const struct json_member *m);

/* 0; -EBADMSG: invalid JSON, or neither an object nor an array; sets the error message; -ENOMEM; or the negative return
 * of @fn. */
int json_members(const char *s, size_t len, json_member_fn fn, void *ctx);
