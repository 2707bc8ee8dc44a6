/* SPDX-License-Identifier: MIT */
#pragma once
/* What the parsers of grammars share: lists of expressions, and sets of characters. */
#include "daemon/text/grammar/grammar-build.h"

#define EXPR_REPEAT_MAX 1000000u /* counts that a grammar may write */

/* A growing list. {0} is empty; the caller frees e. */
struct expr_list {
    expr_t *e;
    size_t n, cap;
};

int expr_list_push(struct expr_list *l, expr_t e); /* 0 or -ENOMEM: sets the error message */

/* A growing list of ranges of characters, in any order. {0} is empty; the caller frees v. */
struct range_list {
    struct expr_range *v;
    size_t n, cap;
};

int range_list_push(struct range_list *l, uint32_t first, uint32_t last); /* as above */
/* All other characters. The list gets sorted. 0 or -ENOMEM as above. */
int range_list_complement(struct range_list *l);
