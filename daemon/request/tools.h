/* SPDX-License-Identifier: MIT */
#pragma once
/* The list of tools of a request. */
#include "libcommon/proto.h"
#include <jansson.h>

/* Reads @t->list. 0, and the caller owns *out, the list in OpenAI's form; -EINVAL: sets the error message, which names
 * the tool and the place; -ENOMEM. */
int tools_parse(json_t **out, const struct proto_tools *t);
