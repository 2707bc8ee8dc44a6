/* SPDX-License-Identifier: MIT */
#pragma once
/* Each line of a batch begins with the options of the command line, and may change them. */
#include "client/options.h"

#define OPTIONS_COPY_FILES 256 /* files, images and sounds of a line */

/* Make @to, which is new, a copy of the options of @from that concern an answer, with room for OPTIONS_COPY_FILES more
 * files and one word. @from outlives it. Call options_fini in any case. 0 or -ENOMEM; sets the error message. */
int options_copy(struct options *to, const struct options *from);

/* Forget the values that a line replaces as a whole. */
void options_drop_stop(struct options *o);
void options_drop_biases(struct options *o);
void options_drop_constraint(struct options *o);
