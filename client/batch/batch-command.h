/* SPDX-License-Identifier: MIT */
#pragma once
/* hob batch: answers the prompts of a file of JSON lines, all at once; see hob(1). */
#include "client/options.h"

/* Returns the exit status. */
int batch_command(const struct options *o);
