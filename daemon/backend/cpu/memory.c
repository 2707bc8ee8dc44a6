/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/memory.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <string.h>
#include <sys/mman.h>

/* Available memory and free swap in bytes (/proc/meminfo); UINT64_MAX if unknown. */
static uint64_t available(void)
{
    _cleanup_(fclosep) FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kb, sum = 0;
    bool found = false;
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %llu", &kb) == 1) {
            found = true;
            sum += kb;
        } else if (sscanf(line, "SwapFree: %llu", &kb) == 1) {
            sum += kb;
        }
    return found ? sum * 1024 : UINT64_MAX;
}

int memory_map(void **out, size_t n, bool lazy, const char *what)
{
    char need[16], have[16];
    uint64_t most = available();
    if (n > most)
        return error_say(-ENOMEM, "out of memory: %s (%zu bytes) for %s, %s are available", format_size(need, n), n,
                         what, format_size(have, most));
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (lazy ? MAP_NORESERVE : 0), -1, 0);
    if (p == MAP_FAILED)
        return error_say(-ENOMEM, "out of memory: %s (%zu bytes) for %s: %s", format_size(need, n), n, what,
                         strerror(errno));
    *out = p;
    return 0;
}
