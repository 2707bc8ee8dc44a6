/* SPDX-License-Identifier: MIT */
/*
 * GPT-2's byte-level alphabet writes every byte as a printable character. A byte that is printable in Latin-1 (! to ~,
 * U+00A1 to U+00AC, U+00AE to U+00FF) is written as itself. The other 68 are U+0100, U+0101, … in ascending order.
 */
#include "daemon/text/tokenizer/vocab.h"

/* The byte of code point @cp (U+0080 to U+017F), or -1. */
static int byte_of(unsigned cp)
{
    if (cp >= 0xa1 && cp <= 0xff) return cp == 0xad ? -1 : (int)cp;
    if (cp < 0x100) return -1;
    cp -= 0x100;
    if (cp <= 0x20) return (int)cp;                 /* 00 to 20 */
    if (cp <= 0x42) return (int)(cp - 0x21 + 0x7f); /* 7F to A0 */
    return cp == 0x43 ? 0xad : -1;
}

ptrdiff_t bytes_decode(char *out, const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;
    char *o = out;
    for (size_t i = 0; i < len; i++) {
        if (p[i] > 0x20 && p[i] < 0x7f) {
            *o++ = (char)p[i];
            continue;
        }
        /* The other characters of the alphabet are below U+0180: two bytes of UTF-8. */
        if (p[i] < 0xc2 || p[i] > 0xc5 || i + 1 == len || (p[i + 1] & 0xc0) != 0x80) return -1;
        int b = byte_of((p[i] & 0x1fu) << 6 | (p[i + 1] & 0x3fu));
        if (b < 0) return -1;
        *o++ = (char)b;
        i++;
    }
    return o - out;
}
