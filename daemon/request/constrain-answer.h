/* SPDX-License-Identifier: MIT */
#pragma once
/* The logits processors that a request asks for: its constraint, the calls of its tools, the limit of thinking. */
#include "daemon/request/request.h"

/* Adds them to the chain of @s, whose length is known. 0; -EDOM: no answer can be made as it is asked for: sets the
 * error message; -ENOMEM. */
int constrain_answer(const struct request *r, struct seq *s);

/* Queues a warning for each keyword that the schema of @r ignores. */
void constrain_warn(struct request *r);
