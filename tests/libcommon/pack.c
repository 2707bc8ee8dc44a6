/* SPDX-License-Identifier: MIT */
#include "tests/libcommon/pack.h"
#include "tests/libcommon/check.h"
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

static int write_bytes(void *ctx, const char *p, size_t n)
{
    return buf_append(ctx, p, n);
}

static const char *blanks(const char *s)
{
    return s + strspn(s, " \n");
}

static const char *value(msgpack_packer *pk, const char *s);

/* How many values (keys count) stand before the closing bracket: packs into nothing. */
static int discard(void *ctx, const char *p, size_t n)
{
    return 0;
}

static size_t count(const char *s, char close)
{
    msgpack_packer pk;
    size_t n = 0;

    msgpack_packer_init(&pk, NULL, discard);
    for (s = blanks(s); *s != close; s = blanks(s + (*s == ',' || *s == ':'))) {
        s = blanks(value(&pk, s));
        n++;
    }
    return n;
}

static const char *members(msgpack_packer *pk, const char *s, char close)
{
    for (s = blanks(s); *s != close; s = blanks(s + (*s == ',' || *s == ':'))) s = blanks(value(pk, s));
    return s + 1;
}

static const char *string(msgpack_packer *pk, const char *s, bool bin)
{
    size_t n = strcspn(s, "'");

    if (bin) {
        msgpack_pack_bin(pk, n);
        msgpack_pack_bin_body(pk, s, n);
    } else {
        msgpack_pack_str(pk, n);
        msgpack_pack_str_body(pk, s, n);
    }
    return s + n + (s[n] == '\'');
}

static const char *number(msgpack_packer *pk, const char *s)
{
    size_t n = strspn(s, "0123456789.-einfa");
    char *end;

    if (memchr(s, '.', n) || memchr(s, 'n', n))
        msgpack_pack_double(pk, strtod(s, &end));
    else if (*s == '-')
        msgpack_pack_int64(pk, strtoll(s, &end, 10));
    else
        msgpack_pack_uint64(pk, strtoull(s, &end, 10));
    if (end == s) fail_msg("bad value: %s", s);
    return end;
}

static const char *value(msgpack_packer *pk, const char *s)
{
    s = blanks(s);
    if (*s == '{') {
        msgpack_pack_map(pk, count(s + 1, '}') / 2);
        return members(pk, s + 1, '}');
    }
    if (*s == '[') {
        msgpack_pack_array(pk, count(s + 1, ']'));
        return members(pk, s + 1, ']');
    }
    if (*s == '\'') return string(pk, s + 1, false);
    if (strncmp(s, "b'", 2) == 0) return string(pk, s + 2, true);
    if (strncmp(s, "true", 4) == 0) return msgpack_pack_true(pk), s + 4;
    if (strncmp(s, "false", 5) == 0) return msgpack_pack_false(pk), s + 5;
    if (strncmp(s, "null", 4) == 0) return msgpack_pack_nil(pk), s + 4;
    return number(pk, s);
}

void pack(struct buf *out, const char *text)
{
    msgpack_packer pk;

    msgpack_packer_init(&pk, out, write_bytes);
    text = blanks(value(&pk, text));
    if (*text) fail_msg("text after the value: %s", text);
}
