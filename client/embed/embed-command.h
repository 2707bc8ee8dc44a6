/* SPDX-License-Identifier: MIT */
#pragma once
/* hob embed and hob rank. */
#include "client/options.h"

/* Check the options and words of the command. 0; -EINVAL; sets the error message. */
int embed_check(const struct options *o);
int rank_check(const struct options *o);

/* Return the exit status; errors are printed. */
int embed_run(const struct options *o);
int rank_run(const struct options *o);
