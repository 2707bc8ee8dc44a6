/* SPDX-License-Identifier: MIT */
#include "libcommon/frame.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>

enum { HEADER = 4 };

void frame_decoder_fini(struct frame_decoder *d)
{
    buf_fini(&d->in);
    d->at = 0;
}

/* 1: the length at the front is known and allowed; 0: not yet there; -EMSGSIZE. */
static int length(const struct frame_decoder *d, uint32_t *len)
{
    size_t max = d->max ? d->max : FRAME_MAX;
    if (d->in.len - d->at < HEADER) return 0; /* also where there is no memory yet */
    const unsigned char *p = (const unsigned char *)d->in.data + d->at;
    *len = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    if (*len > max)
        return error_say(-EMSGSIZE, "a message of %lu bytes is over the limit of %zu", (unsigned long)*len, max);
    return 1;
}

int frame_feed(struct frame_decoder *d, const void *p, size_t n)
{
    /* Popped frames are removed here and not in frame_pop: otherwise each of many small frames of one read would
     * move the rest. */
    if (d->at) {
        buf_consume(&d->in, d->at);
        d->at = 0;
    }
    uint32_t len;
    int r = buf_append(&d->in, p, n);
    if (r < 0) return r;
    r = length(d, &len);
    return r < 0 ? r : 0;
}

int frame_peek(struct frame_decoder *d, const char **body, size_t *len)
{
    uint32_t n;
    int r = length(d, &n);
    if (r <= 0) return r;
    if (d->in.len - d->at - HEADER < n) return 0;
    *body = d->in.data + d->at + HEADER;
    *len = n;
    return 1;
}

void frame_pop(struct frame_decoder *d)
{
    uint32_t len;
    int r = length(d, &len);
    assert(r == 1 && d->in.len - d->at - HEADER >= len);
    d->at += HEADER + len;
    if (d->at < d->in.len) return;
    d->at = 0;
    buf_clear(&d->in);
    if (d->in.cap > FRAME_CHUNK) buf_fini(&d->in); /* an idle connection keeps no large buffer */
}

int frame_take(struct frame_decoder *d, char **memory, const char **body)
{
    struct buf rest = BUF_INIT;
    size_t at = d->at + HEADER;
    uint32_t len;
    int r = length(d, &len);
    assert(r == 1 && d->in.len - at >= len);
    size_t end = at + len;
    if (d->in.len > end) r = buf_append(&rest, d->in.data + end, d->in.len - end);
    if (r < 0) return error_origin(r);
    d->in.data[end] = 0;
    char *less = realloc(d->in.data, end + 1);
    *memory = less ? less : d->in.data;
    *body = *memory + at;
    d->in = rest;
    d->at = 0;
    return 0;
}

void frame_header(unsigned char out[4], uint32_t len)
{
    for (int i = 0; i < HEADER; i++) out[i] = (unsigned char)(len >> 8 * i);
}
