/* SPDX-License-Identifier: MIT */
#pragma once
/* Finds the models that daemons hold, without a connection, which could start a daemon by socket activation. */
#include <stdbool.h>

/* Whether a hobd holds the model @name, the user's or the system's: 1 or 0, also if this user cannot see it; -errno: it
 * cannot be looked up; sets the error message. */
int loaded_by(const char *name, bool system);
