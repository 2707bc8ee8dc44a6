/* SPDX-License-Identifier: MIT */
#include "client/plain.h"
#include "libcommon/utf8.h"
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

static int plain_put(struct buf *out, uint32_t cp)
{
    char utf8[4];

    return buf_append(out, utf8, utf8_encode(utf8, cp));
}

/* What is shown for it instead, 0 for itself. */
static uint32_t plain_picture(uint32_t cp, bool ends_line)
{
    if (cp == '\n' || cp == '\t' || (cp == '\r' && ends_line)) return 0;
    if (cp < ' ') return 0x2400 + cp;
    if (cp == 0x7f) return 0x2421;
    return cp >= 0x80 && cp < 0xa0 ? 0xfffd : 0;
}

int plain_text(struct buf *out, const char *text, size_t n)
{
    size_t from = 0, at = 0;
    int r = 0;

    while (r == 0 && at < n) {
        uint32_t cp, picture;
        size_t len = utf8_decode(text + at, n - at, &cp);

        picture = len ? plain_picture(cp, at + 1 < n && text[at + 1] == '\n') : 0xfffd;
        if (picture) {
            r = buf_append(out, text + from, at - from);
            if (r == 0) r = plain_put(out, picture);
            from = at + (len ? len : 1);
        }
        at += len ? len : 1;
    }
    return r == 0 ? buf_append(out, text + from, n - from) : r;
}

/* By the C library's table, whatever locale the user has: what is shown is UTF-8 in any case. */
static int width_of(uint32_t cp)
{
    static locale_t utf8;
    locale_t had;
    int n;

    if (!utf8) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8) return 1;
    had = uselocale(utf8);
    n = wcwidth((wchar_t)cp);
    uselocale(had);
    return n;
}

unsigned plain_width(const char *s, size_t *len)
{
    uint32_t cp = 0;
    int n = 1;

    *len = utf8_decode(s, strnlen(s, 4), &cp);
    if (!*len) *len = 1;
    if (cp >= 0x300) n = width_of(cp); /* below, they take one each */
    return n < 0 ? 1 : (unsigned)n;
}

unsigned plain_columns(const char *s)
{
    unsigned n = 0;

    for (size_t len; *s; s += len) n += plain_width(s, &len);
    return n;
}

size_t plain_fit(const char *s, unsigned columns, unsigned *used)
{
    size_t at = 0, len;
    unsigned n = 0;

    for (; s[at]; at += len) {
        unsigned more = plain_width(s + at, &len);

        if (n + more > columns) break;
        n += more;
    }
    if (used) *used = n;
    return at;
}
