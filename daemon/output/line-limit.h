/* SPDX-License-Identifier: MIT */
#pragma once
/* The greatest number of lines of an answer. Lines before the first one that is not blank are not counted. */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stdint.h>

struct line_limit {
    uint32_t most; /* lines, as at first; 0: no limit */
    uint32_t left; /* of these, how many have not ended; 0: no limit */
    bool begun;    /* a line that is not blank has begun */
};

/* The bytes of @text from @from on are new. True: the last line ends there; its newline and the rest are cut off. */
bool line_limit_cut(struct line_limit *l, struct buf *text, size_t from);

/* White space of ASCII. */
bool line_blank(char c);
