/* SPDX-License-Identifier: MIT */
#pragma once
/* Do the options go together? What each one is worth alone, options.c has looked at. */
#include "client/options.h"

#define OPTION_GIVEN(o, id) ((o)->given >> (id)&1)

/* Of options that are read, from everywhere; takes the verb of 'sessions' off its words. 0; -EINVAL with a sentence. */
int option_check(struct options *o);
