/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/uri.h"
#include <string.h>

/* Bytes of "scheme:", or 0. */
static size_t scheme_len(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i], l = (char)(c | 0x20);
        if (c == ':') return i > 0 ? i + 1 : 0;
        if (!(l >= 'a' && l <= 'z') && (i == 0 || !((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.')))
            return 0;
    }
    return 0;
}

/* Where the path begins: after the scheme and "//authority". */
static size_t path_at(const char *s, size_t n)
{
    size_t at = scheme_len(s, n);
    if (n - at >= 2 && s[at] == '/' && s[at + 1] == '/')
        for (at += 2; at < n && s[at] != '/' && s[at] != '?';) at++;
    return at;
}

/* Removes "." and ".." segments from the path that begins at @at. */
static void remove_dots(char *s, size_t at)
{
    char *out = s + at, *in = out, *start = out;
    if (*in != '/') return;
    while (*in && *in != '?') {
        char *end = in + 1;
        while (*end && *end != '/' && *end != '?') end++;
        size_t len = (size_t)(end - in);
        bool last = *end != '/';
        if (len == 2 && in[1] == '.') {
            if (last) *out++ = '/';
        } else if (len == 3 && in[1] == '.' && in[2] == '.') {
            while (out > start && *--out != '/') {
            }
            if (last) *out++ = '/';
        } else {
            memmove(out, in, len);
            out += len;
        }
        in = end;
    }
    memmove(out, in, strlen(in) + 1);
}

char *uri_resolve(char *out, const char *base, const char *ref, size_t n)
{
    const char *hash = memchr(ref, '#', n);
    if (hash) n = (size_t)(hash - ref);
    size_t keep = strcspn(base, "#"), path = path_at(base, keep);
    if (scheme_len(ref, n) > 0) {
        keep = 0;
    } else if (n >= 2 && ref[0] == '/' && ref[1] == '/') {
        keep = scheme_len(base, keep);
    } else if (n > 0 && ref[0] == '/') {
        keep = path;
    } else if (n > 0 && ref[0] == '?') {
        keep = strcspn(base, "?#");
    } else if (n > 0) {
        keep = strcspn(base, "?#");
        while (keep > path && base[keep - 1] != '/') keep--;
    }
    memcpy(out, base, keep);
    size_t len = keep;
    if (keep > 0 && keep == path && n > 0 && ref[0] != '/' && ref[0] != '?' && memchr(base, '/', keep))
        out[len++] = '/';
    memcpy(out + len, ref, n);
    out[len + n] = 0;
    remove_dots(out, path_at(out, len + n));
    return out;
}

static int hex(char c)
{
    char l = (char)(c | 0x20);
    return c >= '0' && c <= '9' ? c - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

size_t uri_unescape(char *out, const char *s, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '%' && i + 2 < n + 0 && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0) {
            out[len++] = (char)(hex(s[i + 1]) * 16 + hex(s[i + 2]));
            i += 2;
        } else {
            out[len++] = s[i];
        }
    }
    out[len] = 0;
    return len;
}
