/* SPDX-License-Identifier: MIT */
#pragma once
/* Parses the value of one option into struct options. options.h declares options_watch, options_session_name,
 * options_think and option_call_required, which are also part of this module. */
#include "client/option-table.h"
#include "client/options.h"

/* Set the option @id to @value, which comes from the command line or from hob.conf; NULL: a flag on the command line.
 * 0; -EINVAL or -ENOMEM; sets the error message, which lacks the option's name. */
int option_set(struct options *o, enum option_id id, const char *value);

/* As option_set, for constraints, thinking and tools; 1: another option. */
int option_set_shape(struct options *o, enum option_id id, const char *value);

/* Values of common kinds. 0; -EINVAL or -ENOMEM; sets the error message. */
int option_set_text(char **dst, const char *value);             /* a copy; the old value is freed */
int option_set_name(char **dst, const char *value, size_t max); /* the same, not empty, at most @max bytes */
int option_set_int(int64_t *dst, const char *value, uint64_t min, uint64_t max);
int option_set_time(int64_t *dst, const char *value); /* milliseconds */
