/* SPDX-License-Identifier: MIT */
#pragma once
/* hob map: one prompt for each of many files, all at once; see hob(1). */
#include "client/options.h"

/* Returns the exit status. */
int map_command(const struct options *o);
