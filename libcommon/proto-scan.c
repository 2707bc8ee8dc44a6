/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/proto.h"

/* State of the scan before the next byte. A msgpack body is read once, from front to end, without recursion. */
struct scan {
    const unsigned char *p;
    size_t at, len;
    size_t elems;
    uint64_t open[PROTO_DEPTH_MAX]; /* objects that each open map or array still wants, the innermost last */
    unsigned depth;
};

static int refuse(const struct scan *s, const char *why)
{
    return error_say(-EBADMSG, "malformed message: %s at byte %zu", why, s->at);
}

/* @n bytes, big endian, as a number; moves on. -EBADMSG when they are not there. */
static int number(struct scan *s, unsigned n, uint64_t *v)
{
    if (s->len - s->at < n) return refuse(s, "cut off");
    *v = 0;
    for (unsigned i = 0; i < n; i++) *v = *v << 8 | s->p[s->at++];
    return 0;
}

static int skip(struct scan *s, uint64_t n)
{
    if (n > s->len - s->at) return refuse(s, "a length beyond the end");
    s->at += (size_t)n;
    return 0;
}

/* A map or array of @n objects (keys count). */
static int enter(struct scan *s, uint64_t n)
{
    /* An object has at least a byte, so a larger count is a lie. */
    if (n > s->len - s->at) return refuse(s, "a count beyond the end");
    if (n > PROTO_ELEMS_MAX - s->elems) return refuse(s, "too many elements");
    if (s->depth == PROTO_DEPTH_MAX) return refuse(s, "nested too deep");
    s->open[s->depth++] = n;
    return 0;
}

/* One object's head, and its body unless that is made of objects. The bytes are those of the msgpack specification. */
static int object(struct scan *s)
{
    unsigned c = s->p[s->at++];
    uint64_t n = 0;
    int r;
    if (c < 0x80 || c >= 0xe0) return 0;                     /* fixint */
    if (c < 0x90) return enter(s, 2 * (uint64_t)(c & 0x0f)); /* fixmap */
    if (c < 0xa0) return enter(s, c & 0x0f);                 /* fixarray */
    if (c < 0xc0) return skip(s, c & 0x1f);                  /* fixstr */
    switch (c) {
    case 0xc0: /* nil */
    case 0xc2: /* false */
    case 0xc3: /* true */
        return 0;
    case 0xc4: /* bin 8, 16, 32 */
    case 0xc5:
    case 0xc6:
        r = number(s, 1u << (c - 0xc4), &n);
        return r < 0 ? r : skip(s, n);
    case 0xca: /* float 32, 64 */
    case 0xcb:
        return skip(s, 4u << (c - 0xca));
    case 0xcc: /* uint 8, 16, 32, 64 */
    case 0xcd:
    case 0xce:
    case 0xcf:
        return skip(s, 1u << (c - 0xcc));
    case 0xd0: /* int 8, 16, 32, 64 */
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return skip(s, 1u << (c - 0xd0));
    case 0xd9: /* str 8, 16, 32 */
    case 0xda:
    case 0xdb:
        r = number(s, 1u << (c - 0xd9), &n);
        return r < 0 ? r : skip(s, n);
    case 0xdc: /* array 16, 32 */
    case 0xdd:
        r = number(s, 2u << (c - 0xdc), &n);
        return r < 0 ? r : enter(s, n);
    case 0xde: /* map 16, 32 */
    case 0xdf:
        r = number(s, 2u << (c - 0xde), &n);
        return r < 0 ? r : enter(s, 2 * n);
    }
    s->at--;
    return refuse(s, c == 0xc1 ? "an invalid type byte" : "an extension type");
}

int proto_scan(const char *body, size_t len)
{
    struct scan s = {.p = (const unsigned char *)body, .len = len};
    int r;
    do {
        if (s.at == s.len) return refuse(&s, "cut off");
        if (++s.elems > PROTO_ELEMS_MAX) return refuse(&s, "too many elements");
        if (s.depth) s.open[s.depth - 1]--;
        r = object(&s);
        if (r < 0) return r;
        while (s.depth && !s.open[s.depth - 1]) s.depth--;
    } while (s.depth);
    return s.at < s.len ? refuse(&s, "bytes after the end") : 0;
}
