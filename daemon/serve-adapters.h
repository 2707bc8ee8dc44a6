/* SPDX-License-Identifier: MIT */
#pragma once
/* The adapters that hobd serves with a model: those of the option, and the files NAME.gguf of the folder MODEL.adapters
 * beside the model's MODEL.gguf. */
#include "daemon/request/config.h"

#define SERVE_ADAPTERS_MAX 64

/* Add "NAME=FILE" to *list, which is NULL or has a line for each; a line of the same name is replaced. 0, -EINVAL or
 * -ENOMEM; the error message lacks the option's name. */
int serve_adapters_add(char **list, const char *value);

/* Fill @c: the lines of @list (may be NULL), then those of the folder of @model_path that have other names, by name. 0,
 * -E2BIG, -ENOMEM or -errno; sets the error message. serve_adapters_fini in either case. */
int serve_adapters_resolve(struct adapter_config *c, const char *list, const char *model_path);
void serve_adapters_fini(struct adapter_config *c);
