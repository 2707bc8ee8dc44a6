/* SPDX-License-Identifier: MIT */
#pragma once
/* Limits of a render and of a template. */
#include <stdint.h>

struct template_limits {
    uint64_t steps;  /* evaluated nodes */
    uint32_t depth;  /* nesting of calls and of evaluation */
    uint64_t output; /* bytes of text, intermediate strings included */
};
#define TEMPLATE_LIMITS                                                                                                \
    {                                                                                                                  \
        4000000, 200, 64u << 20                                                                                        \
    }

/* Limits that keep parsing below a second: bytes of the source, and bytes of the parsed tree. The largest known
 * templates have 40 kB. */
#define TEMPLATE_SOURCE_MAX (1u << 20)
#define TEMPLATE_TREE_MAX   (64u << 20)
