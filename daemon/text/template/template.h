/* SPDX-License-Identifier: MIT */
#pragma once
/* Chat templates: Jinja as Hugging Face configures it (trim_blocks, lstrip_blocks, loopcontrols, tojson without ASCII
 * escapes). A template is compiled once and immutable afterwards: any thread may render it. */
#include "daemon/text/template/limits.h"
#include "daemon/text/text.h"
#include <jansson.h>
#include <time.h>

struct template;

/* On 0 the caller owns *out. -EINVAL: sets the error message, with line and cause; -E2BIG: over TEMPLATE_SOURCE_MAX or
 * TEMPLATE_TREE_MAX; -ENOMEM. @src is copied and need not be terminated. */
int template_new(struct template **out, const char *src, size_t len);
struct template *template_free(struct template *t); /* NULL ok, returns NULL */

/*
 * Renders @t with @vars, a JSON object whose keys are the variables, and appends the result to @out. Strings from @vars
 * are user data, except those of the keys in @trusted (NULL-terminated list, for example bos_token and eos_token),
 * which count as written by the template. strftime_now returns @now. @limits: NULL for the defaults. -EINVAL: sets the
 * error message, with line and cause (raise_exception sets its own text); -E2BIG: over a limit; -ENOMEM.
 */
int template_render(const struct template *t, const json_t *vars, const char *const *trusted, time_t now,
                    const struct template_limits *limits, struct text *out);
