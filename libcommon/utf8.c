/* SPDX-License-Identifier: MIT */
#include "libcommon/utf8.h"
#include <stdbool.h>
#include <string.h>

/* Length and lowest second byte … highest second byte of the character that begins with @c (Unicode 15, table 3-7);
 * 0 when none does. The bounds of the second byte are what keeps out overlongs, surrogates and > U+10FFFF. */
static size_t lead(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xbf;
    if (c < 0x80) return 1;
    if (c < 0xc2) return 0;
    if (c < 0xe0) return 2;
    if (c < 0xf0) {
        if (c == 0xe0) *lo = 0xa0;
        if (c == 0xed) *hi = 0x9f;
        return 3;
    }
    if (c > 0xf4) return 0;
    if (c == 0xf0) *lo = 0x90;
    if (c == 0xf4) *hi = 0x8f;
    return 4;
}

/* Length of the character at @s, 0 when it is not one; @*cut: it is the valid beginning of one that @n cuts off. */
static size_t character(const unsigned char *s, size_t n, int *cut)
{
    unsigned char lo, hi;
    size_t len = n ? lead(s[0], &lo, &hi) : 0;
    *cut = 0;
    for (size_t i = 1; i < len; i++) {
        if (i == n) {
            *cut = 1;
            return 0;
        }
        if (s[i] < lo || s[i] > hi) return 0;
        lo = 0x80;
        hi = 0xbf;
    }
    return len;
}

/* The number of ASCII bytes at the front of @p, in whole groups. */
static size_t ascii(const unsigned char *p, size_t n)
{
    enum { WORDS = 4 };
    uint64_t w[WORDS];
    size_t at = 0;

    for (; n - at >= sizeof w; at += sizeof w) {
        memcpy(w, p + at, sizeof w);
        if ((w[0] | w[1] | w[2] | w[3]) & UINT64_C(0x8080808080808080)) break;
    }
    return at;
}

static bool follows(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* As character, for the common ones of two and three bytes, four bytes of which are there. */
static size_t common(const unsigned char *s)
{
    if (s[0] >= 0xc2 && s[0] < 0xe0 && follows(s[1])) return 2;
    if (s[0] > 0xe0 && s[0] < 0xf0 && s[0] != 0xed && follows(s[1]) && follows(s[2])) return 3;
    return 0;
}

size_t utf8_check(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t at = 0;
    int cut;
    while (at < n) {
        at += ascii(p + at, n - at);
        while (at < n && p[at] < 0x80) at++;
        while (at < n && p[at] >= 0x80) {
            size_t len = n - at >= 4 ? common(p + at) : 0;

            if (!len) len = character(p + at, n - at, &cut);
            if (!len) return at;
            at += len;
        }
    }
    return n;
}

size_t utf8_whole(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    int cut;
    /* A cut character is at most the last three bytes and begins with the last byte that is no continuation. */
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        if ((p[n - back] & 0xc0) == 0x80) continue;
        character(p + n - back, back, &cut);
        return cut ? n - back : n;
    }
    return n;
}

size_t utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)s;
    int cut;
    size_t len = character(p, n, &cut);
    if (!len) return 0;
    *cp = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) *cp = *cp << 6 | (p[i] & 0x3f);
    return len;
}

size_t utf8_encode(char *out, uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}
