/* SPDX-License-Identifier: MIT */
/*
 * Huge pages for mapped weights. A kernel whose page cache has large folios (seen with ext4 in 6.18) maps the file with
 * them, and decoding is as fast as from anonymous memory. Elsewhere TLB misses cost a seventh of the speed or more
 * (1.1B Q8_0 on an Ice Lake, tmpfs with huge=never). There the weights are copied to anonymous huge pages, and the copy
 * replaces the mapping. The copy is not shared with other daemons; it takes as much memory as weights that this daemon
 * packed. It is made after the model is ready, so that it does not delay the start.
 */
#include "daemon/backend/cpu/memory.h"
#include "daemon/backend/cpu/packed-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes of the mapping at @start that huge pages map; UINT64_MAX if unknown. */
static uint64_t huge_bytes(const void *start)
{
    _cleanup_(fclosep) FILE *f = fopen("/proc/self/smaps", "re");
    char line[4352], *dash;
    unsigned long long kb, sum = 0;
    bool ours = false, told = false;
    while (f && fgets(line, sizeof(line), f)) {
        unsigned long at = strtoul(line, &dash, 16);
        if (dash > line && *dash == '-') {
            if (ours) break;
            ours = at == (unsigned long)start;
        } else if (ours &&
                   (sscanf(line, "FilePmdMapped: %llu", &kb) == 1 || sscanf(line, "ShmemPmdMapped: %llu", &kb) == 1)) {
            sum += kb;
            told = true;
        }
    }
    return told ? sum * 1024 : UINT64_MAX;
}

static bool have_thp(void)
{
    _cleanup_(fclosep) FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char line[128];
    return f && fgets(line, sizeof(line), f) && !strstr(line, "[never]");
}

int packed_make_huge(struct packed *p, const atomic_bool *stop)
{
    size_t size = p->bytes - (size_t)(packed_image(p) - p->map), page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (size + page - 1) & ~(page - 1);
    if (size < PACKED_ALIGN || huge_bytes(p->map) >= size / 10 * 9 || !have_thp()) return 0;
    uint8_t *mem;
    void *raw;
    int r = memory_map(&raw, whole + PACKED_ALIGN, true, "huge pages for the weights");
    if (r) return r;
    mem = (uint8_t *)(((uintptr_t)raw + PACKED_ALIGN - 1) & ~(uintptr_t)(PACKED_ALIGN - 1));
    madvise(mem, whole, MADV_HUGEPAGE);
    for (size_t at = 0; !r && at < size; at += PACKED_PIECE) {
        if (atomic_load(stop)) r = error_say(-ECANCELED, "copying the weights was stopped");
        memcpy(mem + at, packed_image(p) + at, size - at < PACKED_PIECE ? size - at : PACKED_PIECE);
    }
    /* Threads that compute meanwhile see the old mapping or the new one. */
    if (!r && (mprotect(mem, whole, PROT_READ) < 0 ||
               mremap(mem, whole, whole, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)packed_image(p)) == MAP_FAILED))
        r = error_say(-errno, "cannot move the copy of the weights: %s", strerror(errno));
    if (r) {
        munmap(raw, whole + PACKED_ALIGN);
        return r;
    }
    munmap(raw, (size_t)(mem - (uint8_t *)raw));
    munmap(mem + whole, PACKED_ALIGN - (size_t)(mem - (uint8_t *)raw));
    return 1;
}
