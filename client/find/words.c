/* SPDX-License-Identifier: MIT */
#include "client/find/words.h"
#include <stdbool.h>
#include <string.h>

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80;
}

static bool same(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char x = a[i], y = b[i];
        if (x >= 'A' && x <= 'Z') x = (char)(x + 'a' - 'A');
        if (y >= 'A' && y <= 'Z') y = (char)(y + 'a' - 'A');
        if (x != y) return false;
    }
    return true;
}

static bool known(const struct words *w, const char *at, size_t n)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->len[i] == n && same(w->at[i], at, n)) return true;
    return false;
}

void words_of(struct words *w, const char *s)
{
    w->n = 0;
    while (*s && w->n < WORDS_MAX) {
        size_t n = 0;
        while (in_word(s[n])) n++;
        if (n >= WORD_LEAST && !known(w, s, n)) w->at[w->n] = s, w->len[w->n++] = n;
        s += n ? n : 1;
    }
}

static bool word_at(const struct words *w, size_t word, const char *line, size_t len, size_t at)
{
    return w->len[word] <= len - at && (at == 0 || !in_word(line[at - 1])) &&
           same(w->at[word], line + at, w->len[word]);
}

size_t words_find(const struct words *w, const char *line, size_t len, size_t from, size_t *n)
{
    for (size_t at = from; at < len; at++) {
        *n = 0;
        for (size_t i = 0; i < w->n; i++)
            if (word_at(w, i, line, len, at) && w->len[i] > *n) *n = w->len[i];
        if (*n) return at;
    }
    return len;
}

static size_t weight(const struct words *w, const char *line, size_t len)
{
    size_t sum = 0;
    for (size_t i = 0; i < w->n; i++)
        for (size_t at = 0; at < len; at++)
            if (word_at(w, i, line, len, at)) {
                sum += w->len[i];
                break;
            }
    return sum;
}

static bool has_letter(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (in_word(line[i])) return true;
    return false;
}

struct line words_best_line(const struct words *w, const char *text, size_t len, uint32_t first, uint32_t last)
{
    struct line best = {0};
    const char *end = text + len;
    size_t most = 0;
    bool letters = false;
    for (uint32_t no = 1; no <= last && text < end; no++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text)), *stop = newline ? newline : end;
        size_t n = (size_t)(stop - text);
        if (n > 0 && text[n - 1] == '\r') n--;
        size_t now = no >= first ? weight(w, text, n) : 0;
        if (no >= first && (best.no == 0 || now > most || (!letters && has_letter(text, n)))) {
            best = (struct line){no, text, n};
            most = now;
            letters = has_letter(text, n);
        }
        text = newline ? newline + 1 : end;
    }
    return best;
}

const char *words_lines(const char *text, size_t len, uint32_t first, uint32_t last, size_t *n)
{
    const char *end = text + len, *from = end;
    for (uint32_t no = 1; no <= last && text < end; no++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        if (no == first) from = text;
        text = newline ? newline + 1 : end;
    }
    *n = from < text ? (size_t)(text - from) : 0;
    return from;
}
