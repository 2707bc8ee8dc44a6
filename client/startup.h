/* SPDX-License-Identifier: MIT */
#pragma once
/* What hob, hob-chat and hob-models begin with. */
#include "client/options.h"

/* First of all: signals, messages, and no socket or file of ours becomes a standard stream. Of those, what was closed
 * fails when it is used: it is open the wrong way round, except for standard input, which is empty. */
void startup_begin(void);

/* What options_parse (which returned @parsed) left in @o, with the user's hob.conf if there is one that is meant for
 * us, is checked and given to @run, whose exit status is returned; else what is wrong is said. Frees what @o has. */
int startup_run(struct options *o, int parsed, int (*run)(struct options *o, void *ctx), void *ctx);
