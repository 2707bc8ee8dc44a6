/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/json-read.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <string.h>

int reader_bad(const struct json_reader *r, const char *why)
{
    return error_say(-EBADMSG, "not JSON: %s at byte %zu", why, (size_t)(r->at - r->start));
}

void reader_skip(struct json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

bool reader_take(struct json_reader *r, char c)
{
    if (r->at >= r->end || *r->at != c) return false;
    r->at++;
    return true;
}

bool reader_word(struct json_reader *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static bool hex4(struct json_reader *r, uint32_t *out)
{
    if (r->end - r->at < 4) return false;
    *out = 0;
    for (int i = 0; i < 4; i++) {
        char c = *r->at++;
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return false;
        *out = *out << 4 | (uint32_t)d;
    }
    return true;
}

static int unicode_escape(struct json_reader *r, char *out, size_t *len)
{
    uint32_t hi, lo;
    if (!hex4(r, &hi)) return reader_bad(r, "a bad \\u escape");
    if (hi >= 0xDC00 && hi <= 0xDFFF) return reader_bad(r, "half of a surrogate pair");
    if (hi >= 0xD800 && hi <= 0xDBFF) {
        if (!reader_take(r, '\\') || !reader_take(r, 'u') || !hex4(r, &lo) || lo < 0xDC00 || lo > 0xDFFF)
            return reader_bad(r, "half of a surrogate pair");
        hi = 0x10000 + ((hi - 0xD800) << 10) + (lo - 0xDC00);
    }
    *len += utf8_encode(out + *len, hi);
    return 0;
}

static int escape(struct json_reader *r, char *out, size_t *len)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    if (c == 'u') return unicode_escape(r, out, len);
    const char *p = c ? strchr(names, c) : NULL;
    if (!p) return reader_bad(r, "a bad escape");
    out[(*len)++] = means[p - names];
    return 0;
}

int reader_string(struct json_reader *r, const char **text, uint32_t *len)
{
    if (!reader_take(r, '"')) return reader_bad(r, "a value or name is missing");
    const char *close = r->at;
    while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= r->end) return reader_bad(r, "a string without an end");
    size_t room = (size_t)(close - r->at), n = 0; /* an escape is never shorter than its character */
    int e = 0;
    char *out = jj_arena_bytes(r->arena, room ? room : 1, &e);
    if (!out) return e;
    while (r->at < close) {
        char c = *r->at++;
        if ((unsigned char)c < 0x20) return reader_bad(r, "a control character in a string");
        if (c != '\\')
            out[n++] = c;
        else if ((e = escape(r, out, &n)) < 0)
            return e;
    }
    r->at = close + 1;
    if (utf8_check(out, n) != n) return reader_bad(r, "a string that is not UTF-8");
    *text = out;
    *len = (uint32_t)n;
    return 0;
}

static size_t digits(struct json_reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return (size_t)(r->at - from);
}

int reader_number(struct json_reader *r, const char **text, uint32_t *len)
{
    const char *from = r->at;
    reader_take(r, '-');
    const char *whole = r->at;
    size_t n = digits(r);
    if (n == 0 || (n > 1 && *whole == '0')) return reader_bad(r, "a value is missing");
    if (reader_take(r, '.') && digits(r) == 0) return reader_bad(r, "a digit is missing");
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (!reader_take(r, '+')) reader_take(r, '-');
        if (digits(r) == 0) return reader_bad(r, "a digit is missing");
    }
    n = (size_t)(r->at - from);
    int e = 0;
    char *copy = jj_arena_bytes(r->arena, n, &e);
    if (!copy) return e;
    memcpy(copy, from, n);
    *text = copy;
    *len = (uint32_t)n;
    return 0;
}
