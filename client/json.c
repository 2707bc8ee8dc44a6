/* SPDX-License-Identifier: MIT */
#include "client/json.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static int json_put_escape(struct buf *out, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *at = c ? strchr(plain, c) : NULL;
    return at ? buf_printf(out, "\\%c", letter[at - plain]) : buf_printf(out, "\\u%04x", c);
}

int json_put_string(struct buf *out, const char *s, size_t len)
{
    size_t from = 0, at = 0;
    int r = buf_puts(out, "\"");
    while (r == 0 && at < len) {
        unsigned char c = (unsigned char)s[at];
        uint32_t cp;
        size_t n = utf8_decode(s + at, len - at, &cp);
        bool plain = n > 1 ? cp >= 0xa0 : c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
        if (plain) {
            at += n;
            continue;
        }
        r = buf_append(out, s + from, at - from);
        if (r == 0) r = n ? json_put_escape(out, (unsigned char)cp) : buf_puts(out, "\xef\xbf\xbd");
        at += n ? n : 1;
        from = at;
    }
    if (r == 0 && at > from) r = buf_append(out, s + from, at - from); /* else @s may be NULL */
    return r == 0 ? buf_puts(out, "\"") : r;
}

int json_put_float(struct buf *out, float v)
{
    return isfinite(v) ? buf_printf(out, "%.9g", (double)v) : buf_puts(out, "null");
}

int json_put_ms(struct buf *out, double v)
{
    return isfinite(v) ? buf_printf(out, "%.3f", v) : buf_puts(out, "null");
}

struct json_reader {
    const char *begin, *p, *end;
    struct buf key, text;
    json_fn fn;
    void *ctx;
};

static int json_bad(const struct json_reader *j, const char *what)
{
    return error_say(-EBADMSG, "not JSON: %s at byte %zu", what, (size_t)(j->p - j->begin));
}

static void json_space(struct json_reader *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r')) j->p++;
}

/* Skip spaces, then the character @c. False: another character is next. */
static bool json_pass(struct json_reader *j, char c)
{
    json_space(j);
    if (j->p == j->end || *j->p != c) return false;
    j->p++;
    return true;
}

/* Read four hex digits. Negative: the next characters are not hex digits. */
static int json_hex(struct json_reader *j)
{
    int v = 0;
    if (j->end - j->p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *at = j->p[i] ? strchr(digits, j->p[i] | 0x20) : NULL;
        if (!at || j->p[i] < '0') return -1;
        v = v << 4 | (int)(at - digits);
    }
    j->p += 4;
    return v;
}

static int json_escape(struct json_reader *j, struct buf *out)
{
    static const char letter[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    char c = j->p < j->end ? *j->p : 0, utf8[4];
    const char *at = c ? strchr(letter, c) : NULL;
    int lo;
    if (at) {
        j->p++;
        return buf_append(out, &plain[at - letter], 1);
    }
    if (c != 'u') return json_bad(j, "unknown escape");
    j->p++;
    int hi = json_hex(j);
    if (hi < 0) return json_bad(j, "bad \\u escape");
    if (hi >= 0xd800 && hi < 0xe000) {
        if (hi >= 0xdc00 || j->end - j->p < 6 || j->p[0] != '\\' || j->p[1] != 'u')
            return json_bad(j, "lone surrogate");
        j->p += 2;
        lo = json_hex(j);
        if (lo < 0xdc00 || lo >= 0xe000) return json_bad(j, "lone surrogate");
        hi = 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00);
    }
    return buf_append(out, utf8, utf8_encode(utf8, (uint32_t)hi));
}

/* Read a string into @out; its opening quote is already read. */
static int json_string(struct json_reader *j, struct buf *out)
{
    int r = 0;
    buf_clear(out);
    while (r == 0 && j->p < j->end && *j->p != '"') {
        const char *from = j->p;
        while (j->p < j->end && *j->p != '"' && *j->p != '\\' && (unsigned char)*j->p >= 0x20) j->p++;
        r = buf_append(out, from, (size_t)(j->p - from));
        if (r < 0 || j->p == j->end || *j->p == '"') continue;
        if (*j->p != '\\') return json_bad(j, "control character in a string");
        j->p++;
        r = json_escape(j, out);
    }
    if (r < 0) return r;
    if (j->p == j->end) return json_bad(j, "unfinished string");
    j->p++;
    return r;
}

static int json_scalar(struct json_reader *j)
{
    const char *from = j->p;
    buf_clear(&j->text);
    while (j->p < j->end && *j->p && strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *j->p)) j->p++;
    if (j->p == from) return json_bad(j, "no value");
    return buf_append(&j->text, from, (size_t)(j->p - from));
}

static int json_value(struct json_reader *j, unsigned depth, const char *key);

static int json_members(struct json_reader *j, unsigned depth, bool object)
{
    char close = object ? '}' : ']';
    int r;
    if (json_pass(j, close)) return 0;
    do {
        if (object) {
            if (!json_pass(j, '"')) return json_bad(j, "no key");
            r = json_string(j, &j->key);
            if (r < 0) return r;
            if (!json_pass(j, ':')) return json_bad(j, "no colon");
        }
        r = json_value(j, depth, object ? (j->key.data ? j->key.data : "") : NULL);
        if (r < 0) return r;
    } while (json_pass(j, ','));
    return json_pass(j, close) ? 0 : json_bad(j, "no comma and no end");
}

static int json_value(struct json_reader *j, unsigned depth, const char *key)
{
    struct json_item item = {.depth = depth, .key = key, .kind = JSON_OPEN};
    bool object;
    int r;
    if (json_pass(j, '"')) {
        item.kind = JSON_STRING;
        r = json_string(j, &j->text);
    } else if (j->p < j->end && (*j->p == '{' || *j->p == '[')) {
        object = *j->p++ == '{';
        item.text = object ? "{" : "[";
        item.len = 1;
        if (depth == JSON_DEPTH_MAX) return json_bad(j, "nested too deeply");
        r = j->fn(j->ctx, &item);
        if (r == 0) r = json_members(j, depth + 1, object);
        if (r < 0) return r;
        item.kind = JSON_CLOSE;
        item.key = NULL; /* the key buffer has been reused since */
        return j->fn(j->ctx, &item);
    } else {
        item.kind = JSON_SCALAR;
        r = json_scalar(j);
    }
    if (r < 0) return r;
    item.text = j->text.data ? j->text.data : "";
    item.len = j->text.len;
    return j->fn(j->ctx, &item);
}

int json_walk(const char *s, size_t len, json_fn fn, void *ctx)
{
    struct json_reader j = {.begin = s, .p = s, .end = s + len, .fn = fn, .ctx = ctx};
    int r = json_value(&j, 0, NULL);
    json_space(&j);
    if (r == 0 && j.p != j.end) r = json_bad(&j, "more after the end");
    buf_fini(&j.key);
    buf_fini(&j.text);
    return r;
}
