/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The pieces of a prompt: texts, each tokenized by itself, and runs of embeddings, as llama.cpp's mtmd has them. In the
 * prompt's text a run has PROMPT_RUN_TEXT, written by the template, in its place.
 */
#include "daemon/encoder/encoder.h"
#include "daemon/media/media-source.h"
#include "daemon/model/items.h"
#include "daemon/request/media-marks.h"
#include "daemon/text/text.h"

#define PROMPT_RUN_TEXT "<__media__>"

struct prompt_piece {
    size_t end;          /* in the prompt's text; it begins where the one before ends, and is not empty */
    struct item_run run; /* n 0: it is a text; else at 0 */
};

/* The images and sounds of a prompt, in order. */
struct prompt_sources {
    struct media_source **list; /* [n], owned, each held */
    size_t n;
};

struct prompt_pieces {
    struct prompt_piece *list; /* [n], owned */
    size_t n;
    uint32_t *runs; /* [sources->n], owned: the number of runs of each source; NULL: there are no sources */
};

/* Append @s, whose reference is taken over, also on error. 0 or -ENOMEM. */
int prompt_sources_add(struct prompt_sources *l, struct media_source *s);
void prompt_sources_fini(struct prompt_sources *l);

/* A prompt of one text of @len bytes. 0 or -ENOMEM. */
int prompt_pieces_text(struct prompt_pieces *p, size_t len);
/* Append @in to @out with the layout that @e has for each of @sources in place of its mark, and set @p, zero before.
 * 0; -EINVAL: as media_marks_find, or @e takes no image of this size; -EOPNOTSUPP: @e takes images only; -ENOMEM. All
 * but -ENOMEM set the error message. */
int prompt_pieces_place(struct prompt_pieces *p, const struct encoder *e, const struct prompt_sources *sources,
                        const struct media_marks *marks, const struct text *in, struct text *out);
void prompt_pieces_fini(struct prompt_pieces *p);
