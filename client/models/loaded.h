/* SPDX-License-Identifier: MIT */
#pragma once
/* Which models a daemon holds, found without waking one: connecting to a socket of systemd's would. */
#include <stdbool.h>

/* Whether a hobd has the sessions of the model @name, the user's or the system's. False also where that cannot be
 * seen. */
bool loaded_by(const char *name, bool system);
