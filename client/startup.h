/* SPDX-License-Identifier: MIT */
#pragma once
/* What hob and hob-chat begin with. */
#include "client/options.h"

/* So that no socket or file of ours becomes a standard stream. What was closed fails when it is used: the wrong way
 * round, except for standard input, which is empty. */
void startup_streams(void);

/* options_complete with the user's hob.conf, if there is one that is meant for us. */
int startup_complete(struct options *o);
