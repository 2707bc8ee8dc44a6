/* SPDX-License-Identifier: MIT */
#pragma once
/* Parses the value of one option into struct options. options.h declares options_watch and options_session_name, which
 * are also part of this module. */
#include "client/option-table.h"
#include "client/options.h"

/* Set the option @id to @value, which comes from the command line or from hob.conf; NULL: a flag on the command line.
 * 0; -EINVAL or -ENOMEM; sets the error message, which lacks the option's name. */
int option_set(struct options *o, enum option_id id, const char *value);
