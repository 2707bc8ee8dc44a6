/* SPDX-License-Identifier: MIT */
#pragma once
/* hob sessions: lists, shows, forks, renames and removes sessions. No daemon is started. */
#include "client/options.h"

/* Returns the exit status. */
int sessions_run(const struct options *o);
