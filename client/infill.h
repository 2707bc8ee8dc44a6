/* SPDX-License-Identifier: MIT */
#pragma once
/* hob infill: what belongs between two texts. */
#include "client/options.h"

/* Read the texts, ask, and print. The exit status. */
int infill_run(const struct options *o);
