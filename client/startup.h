/* SPDX-License-Identifier: MIT */
#pragma once
/* Common startup of hob, hob-chat and hob-models. */
#include "client/options.h"

/* Call first: sets up signals and messages, and opens closed standard streams, so that no later descriptor becomes one.
 * A stream that was closed fails on use; closed standard input is empty. */
void startup_begin(void);

/* Add the user's hob.conf to the options of options_parse (which returned @parsed), check them, and call @run. Returns
 * the exit status; errors are printed. Frees @o. */
int startup_run(struct options *o, int parsed, int (*run)(struct options *o, void *ctx), void *ctx);
