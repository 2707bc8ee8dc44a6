/* SPDX-License-Identifier: MIT */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>
#include <string.h>

static const struct tiny_arch *const tables[] = {tiny_arch_dense,   tiny_arch_blocks, tiny_arch_mixtures,
                                                 tiny_arch_experts, tiny_arch_mla,    tiny_arch_recurrent,
                                                 tiny_arch_delta,   tiny_arch_gemma,  tiny_arch_encoders};

const struct tiny_arch *tiny_arch_find(const char *name)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
        for (const struct tiny_arch *a = tables[i]; a->name; a++)
            if (!strcmp(name, a->name)) return a;
    return NULL;
}
