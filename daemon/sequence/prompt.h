/* SPDX-License-Identifier: MIT */
#pragma once
/* The items of a sequence and the text they stand for. The answer is appended to the same arrays. */
#include "daemon/media/media-source.h"
#include "daemon/sequence/embeddings.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/buf.h"

/* An image or a sound of the prompt, whose embeddings are those of some runs. */
struct prompt_media {
    struct media_source *source; /* held */
    uint32_t first, n;           /* its runs in the list */
    bool encoded;                /* for this request, in */
    double encode_ms;
};

struct prompt {
    struct tokens tokens; /* ends: offsets into @text. The items: ITEM_EMBD stands for those of @runs. */
    struct run_list runs;
    struct buf text;
    struct buf markup;          /* a flag for each byte of @text: the template wrote it */
    struct prompt_media *media; /* [n_media], owned, in the order of their runs */
    size_t n_media;
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
/* The first @n runs that belong to no media yet are those of @source. Takes a reference of its own. 0 or -ENOMEM
 * (nothing changed). */
int prompt_push_media(struct prompt *p, struct media_source *source, uint32_t n);
/* Where messages part, in the first @n tokens: the tokens before the second text that the template has not written,
 * which is often the first question after a system prompt; with @last, before the last one. 0: there is none. */
uint32_t prompt_parts(const struct prompt *p, size_t n, bool last);
/* Copy tokens, runs, media, text and markup to @to (zero before). 0 or -ENOMEM; prompt_fini in either case. */
int prompt_copy(struct prompt *to, const struct prompt *from);
void prompt_fini(struct prompt *p);
