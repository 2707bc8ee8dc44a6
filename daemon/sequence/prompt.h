/* SPDX-License-Identifier: MIT */
#pragma once
/* The tokens of a sequence and the text they stand for. The answer is appended to the same arrays. */
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/buf.h"

struct prompt {
    struct tokens tokens; /* ends: offsets into @text */
    struct buf text;
    struct buf markup;               /* a flag for each byte of @text: the template wrote it */
    size_t keep;                     /* the first @keep ids are the session's own */
    int64_t miss_at;                 /* the session's first id that is not among them; -1: none */
    uint64_t cut_prefix, cut_suffix; /* bytes that an infill left out */
};

/* Append text, which the last token's end does not include yet. 0 or -ENOMEM (nothing changed). */
int prompt_record(struct prompt *p, const char *text, size_t len, bool markup);
/* Copy tokens, text and markup to @to (zero before). 0 or -ENOMEM; prompt_fini in either case. */
int prompt_copy(struct prompt *to, const struct prompt *from);
void prompt_fini(struct prompt *p);
