/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of a grammar builder, for the compiler. */
#include "daemon/text/grammar/regex.h"

struct token_set {
    int32_t *ids; /* [n], sorted */
    size_t n;
    bool others; /* any token with text but these */
};

struct grammar_builder {
    struct regex_store store;
    expr_t *bodies; /* [n_rules] REGEX_ID_NONE: not defined */
    struct token_set *token_sets;
    size_t n_rules, cap_rules, n_token_sets, cap_token_sets;
};
