/* SPDX-License-Identifier: MIT */
#include "client/http/base64.h"
#include <errno.h>

/* The six bits of the characters from 0x20 to 0x7f; 64: it is none of the alphabet. */
static const uint8_t values[96] = {
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 62, 64, 64, 64, 63, 52, 53, 54, 55, 56, 57, 58, 59,
    60, 61, 64, 64, 64, 64, 64, 64, 64, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 64, 64, 64, 64, 64, 64, 26, 27, 28, 29, 30, 31, 32,
    33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 64, 64, 64, 64, 64,
};

static unsigned bits(char c)
{
    unsigned i = (unsigned char)c - 0x20u;
    return i < sizeof(values) ? values[i] : 64;
}

int base64_decode(const char *s, size_t n, uint8_t *out, size_t *len)
{
    size_t at = 0;
    if (n % 4) return -EINVAL;
    for (size_t i = 0; i < n; i += 4) {
        const unsigned pad = i + 4 < n || s[i + 3] != '=' ? 0 : s[i + 2] != '=' ? 1 : 2;
        unsigned v = 0, wrong = 0;
        for (unsigned k = 0; k < 4; k++) {
            unsigned b = k < 4 - pad ? bits(s[i + k]) : 0;
            wrong |= b & 64;
            v = v << 6 | b;
        }
        if (wrong || v & ((1u << 8 * pad) - 1)) return -EINVAL; /* bits that belong to no byte are 0 */
        for (unsigned k = 0; k < 3 - pad; k++) out[at++] = (uint8_t)(v >> (16 - 8 * k));
    }
    *len = at;
    return 0;
}

int base64_encode(struct buf *out, const void *p, size_t n)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *at = p;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i += 3) {
        const unsigned left = n - i < 3 ? (unsigned)(n - i) : 3;
        const unsigned v =
            (unsigned)at[i] << 16 | (left > 1 ? (unsigned)at[i + 1] << 8 : 0) | (left > 2 ? at[i + 2] : 0);
        const char four[4] = {alphabet[v >> 18], alphabet[v >> 12 & 63], left > 1 ? alphabet[v >> 6 & 63] : '=',
                              left > 2 ? alphabet[v & 63] : '='};
        r = buf_append(out, four, sizeof(four));
    }
    return r;
}
