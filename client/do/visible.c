/* SPDX-License-Identifier: MIT */
#include "client/do/visible.h"
#include "libcommon/utf8.h"

/* First and last of each range. */
static const uint32_t hidden[][2] = {
    {0x0000, 0x001f},   {0x007f, 0x00a0},   {0x00ad, 0x00ad},   {0x034f, 0x034f},    {0x0600, 0x0605},
    {0x061c, 0x061c},   {0x06dd, 0x06dd},   {0x070f, 0x070f},   {0x0890, 0x0891},    {0x08e2, 0x08e2},
    {0x115f, 0x1160},   {0x1680, 0x1680},   {0x17b4, 0x17b5},   {0x180b, 0x180f},    {0x2000, 0x200f},
    {0x2028, 0x202f},   {0x205f, 0x206f},   {0x2800, 0x2800},   {0x3000, 0x3000},    {0x3164, 0x3164},
    {0xd800, 0xf8ff},   {0xfdd0, 0xfdef},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},    {0xffa0, 0xffa0},
    {0xfff0, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},  {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0x1fffe, 0x1ffff}, {0x2fffe, 0x2ffff}, {0x323b0, 0x10ffff},
};

bool visible_hides(uint32_t cp)
{
    for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++)
        if (cp >= hidden[i][0] && cp <= hidden[i][1]) return true;
    return false;
}

size_t visible_check(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n) {
        uint32_t cp = 0;
        size_t len = utf8_decode(text + at, n - at, &cp);
        if (!len || visible_hides(cp)) return at;
        at += len;
    }
    return n;
}

int visible_escape(struct buf *out, const char *text, size_t n)
{
    int r = 0;
    for (size_t at = 0; r == 0 && at < n;) {
        size_t plain = visible_check(text + at, n - at), len;
        uint32_t cp = 0;
        if (plain) r = buf_append(out, text + at, plain);
        at += plain;
        if (r < 0 || at == n) break;
        len = utf8_decode(text + at, n - at, &cp);
        if (len)
            r = buf_printf(out, "<U+%04X>", (unsigned)cp);
        else
            r = buf_printf(out, "<byte %02X>", (unsigned)(unsigned char)text[at]);
        at += len ? len : 1;
    }
    return r;
}
