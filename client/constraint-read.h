/* SPDX-License-Identifier: MIT */
#pragma once
/* The constraint of an answer, from the options. */
#include "client/options.h"

/* Fill in the constraint of @r; reads the file that an option names. 0; -errno: sets the error message, which names the
 * option and the file. */
int constraint_read(struct proto_request *r, const struct options *o);
