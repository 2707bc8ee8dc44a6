/* SPDX-License-Identifier: MIT */
#pragma once
/* The words of a question in the lines of a text: which line to print for a chunk, and what to mark in it. */
#include <stddef.h>
#include <stdint.h>

enum { WORDS_MAX = 64, WORD_LEAST = 3 /* bytes */ };

/* Words point into the question: letters and digits of ASCII, and all bytes beyond ASCII. */
struct words {
    const char *at[WORDS_MAX];
    size_t len[WORDS_MAX];
    size_t n;
};

void words_of(struct words *w, const char *question);

/* The first of the words in @line[@len] from @from on that begins a word of the line, case ignored in ASCII: returns
 * where and sets *@n to its length; @len if there is none. */
size_t words_find(const struct words *w, const char *line, size_t len, size_t from, size_t *n);

struct line {
    uint32_t no; /* from 1; 0: the text has none of the lines */
    const char *text;
    size_t len; /* without its newline */
};

/* Among the lines @first … @last of @text[@len] the one with the most letters of different words of @w; if none has
 * one, the first with a letter or a digit. */
struct line words_best_line(const struct words *w, const char *text, size_t len, uint32_t first, uint32_t last);

/* The text of the lines @first … @last: *@n bytes. */
const char *words_lines(const char *text, size_t len, uint32_t first, uint32_t last, size_t *n);
