/* SPDX-License-Identifier: MIT */
#pragma once
/* hob status --watch: shows the status repeatedly, in place on a terminal. */
#include "client/options.h"

/* Run until an interrupt, the end of the daemon, a closed output, or (on a terminal) the key q. Returns the exit
 * status. */
int watch_run(const struct options *o);
