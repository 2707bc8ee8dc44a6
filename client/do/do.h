/* SPDX-License-Identifier: MIT */
#pragma once
/* hob do: a command line for what the user asks, which runs only after a key at the terminal. */
#include "client/options.h"

/* Returns the exit status; that of the command if it ran (the shell replaces this process). */
int do_run(const struct options *o);
