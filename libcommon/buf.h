/* SPDX-License-Identifier: MIT */
#pragma once
/* A growing byte buffer. {0} is an empty one. data is NUL-terminated whenever it is not NULL (the NUL is not counted).
 */
#include <stddef.h>

struct buf {
    char *data;
    size_t len, cap;
};

#define BUF_INIT                                                                                                       \
    {                                                                                                                  \
        NULL, 0, 0                                                                                                     \
    }

void buf_fini(struct buf *b);
void buf_clear(struct buf *b); /* len = 0, keeps the memory */

/* All return 0 or -ENOMEM, which leaves the buffer as it was. */
int buf_reserve(struct buf *b, size_t more);
int buf_append(struct buf *b, const void *p, size_t n);
int buf_puts(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Drop the first @n bytes. */
void buf_consume(struct buf *b, size_t n);

/* The memory, which the caller now owns and frees (NULL when empty and never grown); @b is empty after. */
char *buf_steal(struct buf *b, size_t *len);
