/* SPDX-License-Identifier: MIT */
#include "libcommon/buf.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf)BUF_INIT;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data) b->data[0] = 0;
}

int buf_reserve(struct buf *b, size_t more)
{
    size_t need, cap;
    if (__builtin_add_overflow(b->len, more, &need) || __builtin_add_overflow(need, 1, &need)) return -ENOMEM;
    if (need <= b->cap) return 0;
    /* Grow by half: amortized linear, and a frame of 64 MiB does not take 128 MiB. */
    if (__builtin_add_overflow(b->cap, b->cap / 2, &cap) || cap < need) cap = need;
    if (cap < 64) cap = 64;
    char *data = realloc(b->data, cap);
    if (!data) return -ENOMEM;
    data[b->len] = 0;
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_append(struct buf *b, const void *p, size_t n)
{
    int r = buf_reserve(b, n);
    if (r < 0) return r;
    if (n) memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
    return 0;
}

int buf_puts(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) return -ENOMEM;
    int r = buf_reserve(b, (size_t)n);
    if (r < 0) return r;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

void buf_consume(struct buf *b, size_t n)
{
    assert(n <= b->len);
    if (!n) return;
    b->len -= n;
    memmove(b->data, b->data + n, b->len);
    b->data[b->len] = 0;
}

char *buf_steal(struct buf *b, size_t *len)
{
    char *data = b->data;
    if (len) *len = b->len;
    *b = (struct buf)BUF_INIT;
    return data;
}
