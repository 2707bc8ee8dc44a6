/* SPDX-License-Identifier: MIT */
#pragma once
/* hob find -a: an answer from what was found. */
#include "client/find/results.h"
#include "client/options.h"

enum { ANSWER_BYTES = 12000 }; /* of the excerpts: about 4,000 tokens */

/* Append the prompt: numbered excerpts, then the question. @paths [n]: names of the files. *@used: how many of the
 * results are in it. 0 or -ENOMEM. */
int answer_prompt(struct buf *out, const struct results *found, char *const *paths, const char *question, size_t *used);

/* Generate the answer, then print the sources "[1] PATH:FIRST-LAST". Returns the exit status; errors are printed. */
int answer_run(struct options *o, const struct results *found, char *const *paths, const char *question);
