/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Regular expressions in the syntax of RE2, which the whole answer must match: alternatives, groups (named and flagged
 * ones too), classes, [[:alpha:]], \d \w \s (ASCII), . (not a line end; with (?s) any character), the repetitions
 * * + ? {m} {m,} {m,n}, \Q…\E, \x41 \x{1F600}. Non-greedy repetitions are the same language. (?i) folds ASCII letters.
 * ^ \A $ \z may stand where the answer begins and ends. Refused by name: back references, look-around, \b, \p, (?m),
 * possessive repetitions, anchors inside, and characters above ASCII under (?i).
 */
#include "daemon/text/grammar/grammar-build.h"

/* Makes the expression of @s [@n]. 0; -EINVAL: sets the error message, with the character's number; or the error of
 * @b. */
int regex_parse(struct grammar_builder *b, const char *s, size_t n, expr_t *out);
