/* SPDX-License-Identifier: MIT */
#include "daemon/session/record-bytes.h"

int record_put_u64(struct buf *b, uint64_t v)
{
    uint8_t p[8];
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> (8 * i));
    return buf_append(b, p, 8);
}

int record_put(struct buf *b, uint64_t v)
{
    uint8_t p[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return buf_append(b, p, n);
}

int record_put_bytes(struct buf *b, const void *p, size_t n)
{
    int r = record_put(b, n);
    return r < 0 ? r : buf_append(b, p, n);
}

const uint8_t *record_fixed(struct record_cursor *c, size_t n)
{
    if ((size_t)(c->end - c->p) < n) {
        c->bad = true;
        c->p = c->end;
        return NULL;
    }
    c->p += n;
    return c->p - n;
}

uint64_t record_u64(struct record_cursor *c)
{
    const uint8_t *p = record_fixed(c, 8);
    uint64_t v = 0;
    for (int i = 0; p && i < 8; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint64_t record_number(struct record_cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *p = record_fixed(c, 1);
        if (!p) return 0;
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p & 0x80)) return v;
    }
    c->bad = true;
    return 0;
}

size_t record_count(struct record_cursor *c, size_t each)
{
    uint64_t n = record_number(c);
    if (n <= (size_t)(c->end - c->p) / each) return (size_t)n;
    c->bad = true;
    return 0;
}

const char *record_bytes(struct record_cursor *c, size_t *len)
{
    *len = record_count(c, 1);
    const uint8_t *p = record_fixed(c, *len);
    return p ? (const char *)p : "";
}
