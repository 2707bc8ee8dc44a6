/* SPDX-License-Identifier: MIT */
#pragma once
/* Checks combinations of options. option-value.c checks single values. */
#include "client/options.h"

#define OPTION_GIVEN(o, id) ((o)->given[(id) / 64] >> ((id) % 64) & 1)

/* Whether the option @id (enum option_id) can be used with batch and map. */
bool option_in_batch(unsigned id);

/* Check the options of all sources; removes the subcommand of 'sessions' from the words. 0; -EINVAL; sets the error
 * message. */
int option_check(struct options *o);
