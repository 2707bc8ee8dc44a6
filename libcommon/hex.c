/* SPDX-License-Identifier: MIT */
#include "libcommon/hex.h"

void hex_write(char *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_read(uint8_t *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int high = digit(s[2 * i]), low = high < 0 ? -1 : digit(s[2 * i + 1]);
        if (low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
