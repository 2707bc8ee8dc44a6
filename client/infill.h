/* SPDX-License-Identifier: MIT */
#pragma once
/* hob infill: generates the text between two texts. */
#include "client/options.h"

/* Read the texts, send the request, print the answer. Returns the exit status. */
int infill_run(const struct options *o);
