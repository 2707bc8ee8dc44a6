/* SPDX-License-Identifier: MIT */
#pragma once
/* The variables of a template: {1} is a word of the command line, {name} comes from --param or from the template. */
#include "client/options.h"

/* Add "NAME=VALUE", whose memory must stay, to the list @to[*@n], which grows. 0; -EINVAL: another form; -ENOMEM; sets
 * the error message. */
int variable_add(const char ***to, size_t *n, const char *value);

/* Check that the prompt and the system message use only what can be: {input} in the prompt only, words from 1. 0 or
 * -EINVAL; sets the error message. */
int variables_names(const struct options *o);

/* The same, that each variable has a value, and that each --param is used. Sets template.n_used. 0 or -EINVAL; sets the
 * error message. */
int variables_check(struct options *o);

/* Replace the variables in a system message that comes from the template. 0 or -errno; sets the error message. */
int variables_system(struct options *o);

/* Append @text with its variables replaced; {input} is @input[@input_len]. *@at: offset of the first one in @out,
 * SIZE_MAX: none. 0; -EMSGSIZE; -ENOMEM; sets the error message. */
int variables_replace(const struct options *o, const char *text, const struct buf *input, struct buf *out, size_t *at);
