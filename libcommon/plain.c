/* SPDX-License-Identifier: MIT */
#include "libcommon/plain.h"
#include "libcommon/utf8.h"
#include <string.h>

bool plain_commands(uint32_t cp)
{
    return cp < ' ' || (cp >= 0x7f && cp < 0xa0) || (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069);
}

static uint32_t picture(uint32_t cp)
{
    if (cp < ' ') return 0x2400 + cp;
    return cp == 0x7f ? 0x2421 : 0xfffd;
}

/* Read the first character of @s[@n], n > 0. Returns its length in bytes; *@shown: the character to show instead, 0:
 * itself. */
static size_t character(const char *s, size_t n, bool one_line, uint32_t *shown)
{
    uint32_t cp = 0;
    size_t len = utf8_decode(s, n, &cp);
    bool blank = len && (cp == '\n' || cp == '\t' || cp == '\r');
    bool stays = cp != '\r' || (n > 1 && s[1] == '\n');
    *shown = !len ? 0xfffd : plain_commands(cp) ? picture(cp) : 0;
    if (blank && one_line) *shown = ' ';
    if (blank && !one_line && stays) *shown = 0;
    return len ? len : 1;
}

static int append(struct buf *out, const char *text, size_t n, bool one_line)
{
    size_t from = 0, at = 0;
    int r = 0;
    while (r == 0 && at < n) {
        uint32_t shown;
        size_t len = character(text + at, n - at, one_line, &shown);
        if (shown) {
            char utf8[4];
            r = buf_append(out, text + from, at - from);
            if (r == 0) r = buf_append(out, utf8, utf8_encode(utf8, shown));
            from = at + len;
        }
        at += len;
    }
    return r == 0 ? buf_append(out, text + from, n - from) : r;
}

int plain_text(struct buf *out, const char *text, size_t n)
{
    return append(out, text, n, false);
}

int plain_line(struct buf *out, const char *text, size_t n)
{
    return append(out, text, n, true);
}

size_t plain_into(char *out, size_t cap, const char *text, size_t n)
{
    size_t used = 0;
    for (size_t at = 0; at < n;) {
        uint32_t shown;
        char utf8[4];
        size_t len = character(text + at, n - at, true, &shown), made = shown ? utf8_encode(utf8, shown) : len;
        if (made > cap - used) break;
        memcpy(out + used, shown ? utf8 : text + at, made);
        used += made;
        at += len;
    }
    return used;
}

void plain_print(FILE *f, const char *before, const char *text)
{
    for (size_t left = strlen(text); fputs(before, f) >= 0 && left; before = "") {
        char line[512];
        uint32_t shown;
        size_t take = 0;
        while (take < left && take < sizeof(line) / 3 - 4) take += character(text + take, left - take, true, &shown);
        fwrite(line, 1, plain_into(line, sizeof(line), text, take), f);
        text += take;
        left -= take;
    }
    fputc('\n', f);
}
