/* SPDX-License-Identifier: MIT */
#pragma once
/* hob status --watch: the daemon again and again, on a terminal in place. */
#include "client/options.h"

/* Until it is interrupted, the daemon goes away, nobody reads any more, or (on a terminal) q is typed. Returns the exit
 * status. */
int watch_run(const struct options *o);
