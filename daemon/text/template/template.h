/* SPDX-License-Identifier: MIT */
#pragma once
/* Chat templates: Jinja, as Hugging Face configures it (trim_blocks, lstrip_blocks, loopcontrols, tojson without ASCII
 * escapes). A template is compiled once and immutable after: any thread may render it. */
#include "daemon/text/text.h"
#include <jansson.h>
#include <stdint.h>
#include <time.h>

struct template;

struct template_limits {
    uint64_t steps;  /* evaluated nodes */
    uint32_t depth;  /* of calls and nesting */
    uint64_t output; /* bytes made, intermediate strings included */
};
#define TEMPLATE_LIMITS                                                                                                \
    {                                                                                                                  \
        4000000, 200, 64u << 20                                                                                        \
    }

/* What a template may be, so that its parsing takes no more than a second: bytes of its source, and bytes of the tree
 * that is made of it. The largest of known models have 40 kB. */
#define TEMPLATE_SOURCE_MAX (1u << 20)
#define TEMPLATE_TREE_MAX   (64u << 20)

/* -EINVAL with a sentence: line and cause; -E2BIG over TEMPLATE_SOURCE_MAX or TEMPLATE_TREE_MAX; -ENOMEM. @src need not
 * be terminated and is copied. */
int template_new(struct template **out, const char *src, size_t len);
struct template *template_free(struct template *t); /* NULL ok, returns NULL */

/*
 * Render with @vars, a JSON object whose keys are the variables. Strings that come from @vars are data, except those of
 * the keys in @trusted (NULL-terminated list; bos_token and eos_token, say), which count as written by the template.
 * @now is what strftime_now sees. Appends to @out. -EINVAL with line and cause (also raise_exception's own words),
 * -E2BIG over a limit, -ENOMEM.
 */
int template_render(const struct template *t, const json_t *vars, const char *const *trusted, time_t now,
                    const struct template_limits *limits, struct text *out);
