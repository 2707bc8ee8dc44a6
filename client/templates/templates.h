/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Templates: files NAME.conf in the language of hob.conf, each with a prompt and options. The option --template selects
 * one. {input} in the prompt is the text of the request, {1} a word of the command line, {name} a variable, {{name}}
 * the text {name}. All other braces are text. Values are put in once; what they contain is never looked at again.
 */
#include "client/input.h"
#include "client/options.h"

#define TEMPLATE_NAME_MAX 64  /* bytes of the name of a template or a variable */
#define TEMPLATE_WORD_MAX 999 /* the highest number of a word */

/* Read the template of --template, if any, into @o: options that the command line does not set, the prompt, and the
 * system message with its variables replaced. Call between options_parse and options_complete. 0; -EINVAL: no such
 * template, a wrong line, a missing variable; -ENOMEM; else -errno; sets the error message. */
int template_load(struct options *o);

/* Check the file @path as template_load reads it, without its variables. As template_load. */
int template_check(const char *path);

/* As input_read, and then put the text and the variables into the prompt of the template that @o has loaded. -EINVAL:
 * the prompt needs a text, and there is none. */
int template_input(const struct options *o, int stdin_fd, struct input *in);

/* The command 'hob templates'. Returns the exit status. */
int template_command(const struct options *o);
