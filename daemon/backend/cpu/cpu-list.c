/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/cpu-list.h"
#include "libcommon/cleanup.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT 8192 /* longer than any list of CPU_SETSIZE CPUs */

static void add(cpu_set_t *out, long from, long to)
{
    for (long c = from < 0 ? 0 : from; c <= to && c < CPU_SETSIZE; c++) CPU_SET((size_t)c, out);
}

bool cpu_list_read(cpu_set_t *out, const char *path)
{
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    char text[TEXT], *s = text, *end;
    CPU_ZERO(out);
    if (!f || !fgets(text, sizeof(text), f)) return false;
    for (; isdigit((unsigned char)*s); s = *end == ',' ? end + 1 : end) {
        long from = strtol(s, &end, 10), to = from;
        if (*end == '-' && isdigit((unsigned char)end[1])) to = strtol(end + 1, &end, 10);
        add(out, from, to);
    }
    return *s == '\n' || *s == '\0';
}
