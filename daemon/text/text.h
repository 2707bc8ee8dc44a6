/* SPDX-License-Identifier: MIT */
#pragma once
/* Text with its provenance: the template renders it, the tokenizer reads it. */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stddef.h>

/* The bytes from the end of the previous span to @end. */
struct text_span {
    size_t end;
    bool markup; /* true: the template wrote these bytes; false: they are user data */
};

/* {0} is an empty text. */
struct text {
    struct buf s;
    struct text_span *spans; /* [n_spans], in order; together they cover [0, s.len) */
    size_t n_spans;
};

/* Frees what @t owns and empties it. */
void text_fini(struct text *t);
/* Appends the bytes [@from, @to) of @s with their provenance. 0 or -ENOMEM. */
int text_append_range(struct text *t, const struct text *s, size_t from, size_t to);
/* Appends @len bytes of @s; merges them with the last span of the same provenance. 0 or -ENOMEM. */
int text_append(struct text *t, const char *s, size_t len, bool markup);
