/* SPDX-License-Identifier: MIT */
#include "client/width.h"
#include "libcommon/utf8.h"
#include <locale.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

/* Uses the table of the C library with a UTF-8 locale, whatever locale the user has set: the output is UTF-8. */
static int table_width(uint32_t cp)
{
    static locale_t utf8;
    if (!utf8) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8) return 1;
    locale_t had = uselocale(utf8);
    int n = wcwidth((wchar_t)cp);
    uselocale(had);
    return n;
}

unsigned width_first(const char *s, size_t *len)
{
    uint32_t cp = 0;
    int n = 1;
    *len = utf8_decode(s, strnlen(s, 4), &cp);
    if (!*len) *len = 1;
    if (cp >= 0x300) n = table_width(cp); /* all characters below have width 1 */
    return n < 0 ? 1 : (unsigned)n;
}

unsigned width_columns(const char *s)
{
    unsigned n = 0;
    for (size_t len; *s; s += len) n += width_first(s, &len);
    return n;
}

size_t width_fit(const char *s, unsigned columns, unsigned *used)
{
    size_t at = 0, len;
    unsigned n = 0;
    for (; s[at]; at += len) {
        unsigned more = width_first(s + at, &len);
        if (n + more > columns) break;
        n += more;
    }
    if (used) *used = n;
    return at;
}
