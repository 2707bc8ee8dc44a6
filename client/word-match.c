/* SPDX-License-Identifier: MIT */
#include "client/word-match.h"
#include "libcommon/utf8.h"
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wctype.h>

/* The characters of all languages, whatever the user's locale; (locale_t)0: only those of ASCII. */
static locale_t characters(void)
{
    static locale_t made;
    if (!made) made = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    return made;
}

static uint32_t lower(uint32_t c)
{
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return characters() ? (uint32_t)towlower_l((wint_t)c, characters()) : c;
}

static bool is_letter(uint32_t c)
{
    if (c < 0x80) return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9');
    return !characters() || iswalnum_l((wint_t)c, characters());
}

/* The bytes of @text that are equal to all of @word; 0: they differ. */
static size_t equal(const char *text, size_t len, const char *word, size_t word_len)
{
    size_t at = 0, w = 0;
    while (w < word_len) {
        uint32_t a, b;
        size_t n = utf8_decode(text + at, len - at, &a), m = utf8_decode(word + w, word_len - w, &b);
        if (!n || !m || lower(a) != lower(b)) return 0;
        at += n;
        w += m;
    }
    return at;
}

size_t word_match(const char *text, size_t len, const char *word, size_t *n)
{
    const size_t word_len = strlen(word);
    uint32_t first = 0, c;
    bool inside = false; /* the character before belongs to a word */
    utf8_decode(word, word_len, &first);
    const bool anywhere = !is_letter(first);
    for (size_t at = 0; at < len;) {
        size_t step = utf8_decode(text + at, len - at, &c);
        if (!step) c = 0;
        size_t same =
            step && (anywhere || !inside) && lower(c) == lower(first) ? equal(text + at, len - at, word, word_len) : 0;
        if (same) {
            if (n) *n = same;
            return at;
        }
        inside = c && is_letter(c);
        at += step ? step : 1;
    }
    return len;
}
