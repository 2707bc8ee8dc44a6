/* SPDX-License-Identifier: MIT */
#pragma once
/* A row of logits becomes the next token of an answer. */
#include "daemon/sample/chain.h"
#include <stdbool.h>

struct core;
struct seq;

/* Sample a token for @s from @row and send its events. The row that ends the prompt of several answers gives each of
 * them a token. True: the answer continues, and its slot and KV are as before. False: it ended (@s may be freed) or was
 * preempted, or this was the first token of several answers. */
bool advance(struct core *core, struct seq *s, struct logits row);
