/* SPDX-License-Identifier: MIT */
#include "daemon/model/arch-table.h"
#include <stddef.h>
#include <string.h>

static const struct arch *const tables[] = {arch_a_f, arch_g_l, arch_m_o, arch_p_z};

const struct arch *arch_nth(uint32_t i)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
        for (const struct arch *a = tables[t]; a->name; a++)
            if (!i--) return a;
    return NULL;
}

const struct arch *arch_find(const char *name, uint64_t len)
{
    const struct arch *a;
    for (uint32_t i = 0; (a = arch_nth(i)); i++)
        if (len == strlen(a->name) && !memcmp(name, a->name, len)) return a;
    return NULL;
}
