/* SPDX-License-Identifier: MIT */
#pragma once
/* hob sessions: what is kept of this user's conversations; no daemon is started. */
#include "client/options.h"

/* The exit status. */
int sessions_run(const struct options *o);
