/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/spelling.h"
#include "libcommon/utf8.h"
#include <string.h>
#include <xxhash.h>

static expr_t seq2(struct grammar_builder *b, expr_t x, expr_t y)
{
    return expr_seq(b, (expr_t[]){x, y}, 2);
}

static expr_t hex_digit(struct grammar_builder *b, unsigned lo, unsigned hi)
{
    uint64_t set[4] = {0};
    for (unsigned d = lo; d <= hi; d++) {
        const char both[2] = {"0123456789abcdef"[d], "0123456789ABCDEF"[d]};
        for (int i = 0; i < 2; i++) set[both[i] >> 6] |= 1ull << (both[i] & 63);
    }
    return expr_byte_set(b, set);
}

/* The numbers lo..hi in @digits hexadecimal digits. */
static expr_t hex_range(struct grammar_builder *b, unsigned digits, uint32_t lo, uint32_t hi)
{
    if (digits == 0) return expr_empty(b);
    unsigned shift = 4 * (digits - 1);
    uint32_t mask = (1u << shift) - 1, low = lo & mask, high = hi & mask;
    unsigned a = lo >> shift, z = hi >> shift;
    if (a == z) return seq2(b, hex_digit(b, a, a), hex_range(b, digits - 1, low, high));
    expr_t parts[3];
    size_t n = 0;
    if (low != 0) {
        parts[n++] = seq2(b, hex_digit(b, a, a), hex_range(b, digits - 1, low, mask));
        a++;
    }
    if (high != mask) {
        parts[n++] = seq2(b, hex_digit(b, z, z), hex_range(b, digits - 1, 0, high));
        z--;
    }
    if (a <= z) parts[n++] = seq2(b, hex_digit(b, a, z), hex_range(b, digits - 1, 0, mask));
    return expr_alt(b, parts, n);
}

static expr_t escaped(struct grammar_builder *b, uint32_t lo, uint32_t hi)
{
    return seq2(b, expr_bytes(b, "\\u", 2), hex_range(b, 4, lo, hi));
}

/* Characters over U+FFFF as pairs of surrogates. */
static expr_t pairs(struct grammar_builder *b, uint32_t lo, uint32_t hi)
{
    lo -= 0x10000;
    hi -= 0x10000;
    uint32_t a = 0xD800 + (lo >> 10), z = 0xD800 + (hi >> 10), low = 0xDC00 + (lo & 0x3FF),
             high = 0xDC00 + (hi & 0x3FF);
    if (a == z) return seq2(b, escaped(b, a, a), escaped(b, low, high));
    expr_t parts[3];
    size_t n = 0;
    if (low != 0xDC00) {
        parts[n++] = seq2(b, escaped(b, a, a), escaped(b, low, 0xDFFF));
        a++;
    }
    if (high != 0xDFFF) {
        parts[n++] = seq2(b, escaped(b, z, z), escaped(b, 0xDC00, high));
        z--;
    }
    if (a <= z) parts[n++] = seq2(b, escaped(b, a, z), escaped(b, 0xDC00, 0xDFFF));
    return expr_alt(b, parts, n);
}

static expr_t spell_ascii(struct grammar_builder *b, uint32_t c)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *p = c ? strchr(means, (int)c) : NULL;
    expr_t parts[3];
    size_t n = 0;
    if (p) parts[n++] = expr_bytes(b, (char[]){'\\', names[p - means]}, 2);
    if (c < 0x20 || c == 0x7F) parts[n++] = escaped(b, c, c);
    if (c >= 0x20 && c != '"' && c != '\\') parts[n++] = expr_bytes(b, (char[]){(char)c}, 1);
    return expr_alt(b, parts, n);
}

static bool needs_escape(uint32_t c)
{
    return c < 0x20 || c == '"' || c == '\\' || c == '/' || c == 0x7F;
}

static expr_t spell_range(struct spelling *s, uint32_t lo, uint32_t hi)
{
    struct grammar_builder *b = s->builder;
    expr_t parts[0x80];
    size_t n = 0;
    if (s->raw) return expr_chars(b, &(struct expr_range){lo, hi}, 1);
    while (lo <= hi && lo < 0x80) {
        if (needs_escape(lo)) {
            parts[n++] = spell_ascii(b, lo++);
            continue;
        }
        struct expr_range run = {lo, lo};
        while (run.last < hi && run.last < 0x7F && !needs_escape(run.last + 1)) run.last++;
        parts[n++] = expr_chars(b, &run, 1);
        lo = run.last + 1;
    }
    if (lo <= hi) {
        struct expr_range rest = {lo, hi};
        parts[n++] = expr_chars(b, &rest, 1);
        if (lo < 0xD800) parts[n++] = escaped(b, lo, hi < 0xD7FF ? hi : 0xD7FF);
        if (lo <= 0xFFFF && hi >= 0xE000) parts[n++] = escaped(b, lo > 0xE000 ? lo : 0xE000, hi < 0xFFFF ? hi : 0xFFFF);
        if (hi > 0xFFFF) parts[n++] = pairs(b, lo > 0x10000 ? lo : 0x10000, hi);
    }
    return expr_alt(b, parts, n);
}

expr_t spell_class(struct spelling *s, const struct char_class *c)
{
    if (c->n == 0) return expr_none(s->builder);
    size_t bytes = c->n * sizeof(c->range[0]),
           at = XXH3_64bits(c->range, bytes) % (sizeof(s->memo) / sizeof(s->memo[0]));
    if (s->memo[at].n == c->n && memcmp(s->memo[at].range, c->range, bytes) == 0) return s->memo[at].expr;

    expr_t parts[CLASS_RANGES_MAX];
    for (size_t i = 0; i < c->n; i++) parts[i] = spell_range(s, c->range[i].first, c->range[i].last);
    expr_t e = expr_alt(s->builder, parts, c->n);
    if (bytes <= sizeof(s->memo[at].range)) {
        memcpy(s->memo[at].range, c->range, bytes);
        s->memo[at].n = c->n;
        s->memo[at].expr = e;
    }
    return e;
}

expr_t spell_char(struct spelling *s, uint32_t c)
{
    return spell_range(s, c, c);
}

expr_t spell_text(struct spelling *s, const char *text, size_t n)
{
    expr_t out = expr_empty(s->builder);
    if (s->raw) return expr_bytes(s->builder, text, n);
    while (n > 0) { /* from the end, since sequences nest to the right */
        size_t plain = n;
        while (plain > 0 && (unsigned char)text[plain - 1] < 0x80 && !needs_escape((unsigned char)text[plain - 1]))
            plain--;
        if (plain < n) {
            out = seq2(s->builder, expr_bytes(s->builder, text + plain, n - plain), out);
            n = plain;
            continue;
        }
        size_t from = n - 1;
        while (from > 0 && ((unsigned char)text[from] & 0xC0) == 0x80) from--;
        uint32_t c;
        if (utf8_decode(text + from, n - from, &c) == 0) return expr_none(s->builder);
        out = seq2(s->builder, spell_char(s, c), out);
        n = from;
    }
    return out;
}

void spelling_init(struct spelling *s, struct grammar_builder *b, bool raw)
{
    *s = (struct spelling){.builder = b, .raw = raw};
    struct char_class all = {.range = {{0, 0xD7FF}, {0xE000, 0x10FFFF}}, .n = 2};
    s->any = spell_class(s, &all);
    s->text = expr_repeat(b, s->any, 0, EXPR_UNLIMITED);
}
