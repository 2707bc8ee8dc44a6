/* SPDX-License-Identifier: MIT */
#pragma once
/* The fields of /v1/messages. */
#include "client/http/completion.h"

/* Read the request's object into @c. 0; negative with the fault. */
int anthropic_read(struct completion *c, const json_t *object);
