/* SPDX-License-Identifier: MIT */
#pragma once
/* The thinking and the tools of a request, from the options. */
#include "client/options.h"

/* Fill in the thinking and the list of --tools of @r; reads the file. 0; -errno: sets the error message, which names
 * the option and the file. */
int tools_read(struct proto_request *r, const struct options *o);

/* Fill in the choice of --tool-choice. 0 or -ENOMEM. */
int tools_choice(struct proto_tools *t, const char *choice);
