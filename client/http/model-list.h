/* SPDX-License-Identifier: MIT */
#pragma once
/* The models that a client can name: each is a socket of a daemon. */
#include "client/http/fault.h"
#include "client/http/http-options.h"
#include <jansson.h>

/* The model's name of a socket's path; the caller frees it. NULL: no memory. */
char *model_name(const char *path);

/* The models as an array of OpenAI's "model" objects, sorted by name; the caller owns *out. 0 or -ENOMEM; sets the
 * error message. */
int model_list(const struct http_options *o, json_t **out);

/* The socket of the model @name (NULL or "default": the first --socket, or the model that plain hob uses). The caller
 * frees *path. 0; negative with *f: 404, no such model; 503, it is not running. */
int model_find(const struct http_options *o, const char *name, char **path, struct fault *f);
