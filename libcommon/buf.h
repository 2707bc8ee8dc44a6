/* SPDX-License-Identifier: MIT */
#pragma once
/* A growing byte buffer. {0} is an empty one. If data is not NULL, it is NUL-terminated; len does not count the NUL. */
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

/* Each returns 0, or -ENOMEM with the buffer unchanged. */
int buf_reserve(struct buf *b, size_t more);
int buf_append(struct buf *b, const void *p, size_t n);
int buf_puts(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Drop the first @n bytes. */
void buf_consume(struct buf *b, size_t n);

/* Returns the memory, which the caller now owns and frees (NULL if the buffer never grew); @b is empty afterwards. */
char *buf_steal(struct buf *b, size_t *len);
