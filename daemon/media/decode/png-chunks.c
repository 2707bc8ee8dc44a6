/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/png-chunks.h"
#include "libcommon/error.h"
#include <string.h>
#include <zlib.h>

enum { SIGNATURE = 8, FRAME = 12 /* length, name and checksum */, IHDR = 13 };

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is(const uint8_t *chunk, const char *name)
{
    return memcmp(chunk + 4, name, 4) == 0;
}

static bool is_needed(const uint8_t *chunk)
{
    return is(chunk, "IHDR") || is(chunk, "PLTE") || is(chunk, "tRNS") || is(chunk, "IDAT") || is(chunk, "IEND");
}

static bool is_name(const uint8_t *s)
{
    for (int i = 0; i < 4; i++)
        if ((s[i] | 32) < 'a' || (s[i] | 32) > 'z') return false;
    return true;
}

/* A chunk whose first letter is a capital must be understood. */
static bool is_critical(const uint8_t *chunk)
{
    return !(chunk[4] & 32);
}

static bool is_crc_right(const uint8_t *chunk, uint32_t len)
{
    return crc32(crc32(0, NULL, 0), chunk + 4, len + 4) == get32(chunk + 8 + len);
}

/* The chunk at @at. Sets *len, the bytes of its data. */
static int check(const struct png_chunks *c, size_t at, uint32_t *len)
{
    const uint8_t *p = c->data + at;
    if (c->n - at < FRAME) return error_say(-EBADMSG, "truncated: the last chunk, IEND, is missing");
    *len = get32(p);
    if (!is_name(p + 4)) return error_say(-EBADMSG, "a chunk without a name, at byte %zu", at);
    if (*len > INT32_MAX) return error_say(-EBADMSG, "a bad length of %.4s", (const char *)p + 4);
    if (c->n - at - FRAME < *len) return error_say(-EBADMSG, "truncated in %.4s", (const char *)p + 4);
    if (!is_needed(p) && is_critical(p)) return error_say(-EBADMSG, "unknown chunk %.4s", (const char *)p + 4);
    if (is_needed(p) && !is_crc_right(p, *len)) return error_say(-EBADMSG, "bad CRC in %.4s", (const char *)p + 4);
    if (is(p, "IHDR") != (at == SIGNATURE) || (is(p, "IHDR") && *len != IHDR))
        return error_say(-EBADMSG, "the header, IHDR, is damaged");
    return 0;
}

int png_chunks_init(struct png_chunks *c, const uint8_t *data, size_t n)
{
    *c = (struct png_chunks){.data = data, .n = n, .next = SIGNATURE, .end = SIGNATURE};
    for (size_t at = SIGNATURE;;) {
        uint32_t len = 0;
        int r = check(c, at, &len);
        if (r < 0) return r;
        const uint8_t *p = data + at;
        if (is(p, "IHDR")) {
            c->width = get32(p + 8);
            c->height = get32(p + 12);
            c->interlaced = p[20] != 0;
        }
        if (is(p, "eXIf") && !c->exif && is_crc_right(p, len)) {
            c->exif = p + 8;
            c->n_exif = len;
        }
        at += FRAME + len;
        if (is(p, "IEND")) {
            c->n = at;
            return 0;
        }
    }
}

/* Go to the next chunk that is needed; the last one is IEND. */
static bool advance(struct png_chunks *c)
{
    const uint8_t *p;
    if (c->next == c->n) return false;
    do {
        p = c->data + c->next;
        c->from = c->next;
        c->next += FRAME + (size_t)get32(p);
    } while (!is_needed(p));
    c->end = c->next;
    return true;
}

bool png_chunks_read(struct png_chunks *c, uint8_t *to, size_t n)
{
    while (n > 0) {
        if (c->from == c->end && !advance(c)) return false;
        size_t most = c->end - c->from, some = n < most ? n : most;
        memcpy(to, c->data + c->from, some);
        c->from += some;
        to += some;
        n -= some;
    }
    return true;
}
