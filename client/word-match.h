/* SPDX-License-Identifier: MIT */
#pragma once
/* Finds words in text. */
#include <stddef.h>

/* The offset in @text[@len] (UTF-8) of the first word that begins with @word, which is not empty, in upper or lower
 * case; @len: none. *@n (NULL ok): the bytes of the text that are equal to @word. Invalid bytes match nothing. */
size_t word_match(const char *text, size_t len, const char *word, size_t *n);
