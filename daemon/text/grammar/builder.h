/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of a grammar builder, for the compiler. */
#include "daemon/text/grammar/regex.h"

struct grammar_builder {
    struct regex_store store;
    expr_t *bodies; /* [n_rules] REGEX_ID_NONE: not defined */
    size_t n_rules, cap_rules;
};
