/* SPDX-License-Identifier: MIT */
#pragma once
/* The items of a sequence and the text they stand for. The answer is appended to the same arrays. */
#include "daemon/sequence/embeddings.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/buf.h"

struct prompt {
    struct tokens tokens; /* ends: offsets into @text. The items: ITEM_EMBD stands for those of @runs. */
    struct run_list runs;
    struct buf text;
    struct buf markup;               /* a flag for each byte of @text: the template wrote it */
    size_t keep;                     /* the first @keep ids are the session's own */
    int64_t miss_at;                 /* the session's first id that is not among them; -1: none */
    uint64_t cut_prefix, cut_suffix; /* bytes that an infill left out */
};

static inline struct items prompt_items(const struct prompt *p)
{
    return (struct items){.ids = p->tokens.ids, .n = (uint32_t)p->tokens.n, .runs = p->runs.runs, .n_runs = p->runs.n};
}

/* Append text, which the last token's end does not include yet. 0 or -ENOMEM (nothing changed). */
int prompt_record(struct prompt *p, const char *text, size_t len, bool markup);
/* Append @run, whose position is set here, and its embeddings (NULL: they are not at hand). All its items have the end
 * @end in the text. Takes a reference of its own on @e. 0 or -ENOMEM (nothing changed). */
int prompt_push_run(struct prompt *p, struct item_run run, uint32_t end, struct embeddings *e);
/* Copy tokens, runs, text and markup to @to (zero before). 0 or -ENOMEM; prompt_fini in either case. */
int prompt_copy(struct prompt *to, const struct prompt *from);
void prompt_fini(struct prompt *p);
