/* SPDX-License-Identifier: MIT */
#include "client/http/base64.h"
#include <errno.h>

/* The six bits of @c; more than 63: it is none of the alphabet. */
static unsigned bits(char c)
{
    if (c >= 'A' && c <= 'Z') return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z') return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9') return (unsigned)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
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
