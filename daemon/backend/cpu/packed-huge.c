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

#define PIECE ((size_t)16 * PACKED_PIECE) /* copied at a time; a multiple of a huge page */

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

/* Copy @size bytes of the image from @from to @mem, and let each piece replace that of the mapping at once, so that few
 * bytes are in memory twice. Threads that compute meanwhile see the old mapping or the new one. Returns 0 or -errno;
 * *moved bytes of @mem are no longer there. */
static int replace(uint8_t *mem, const uint8_t *from, size_t size, size_t *moved, const atomic_bool *stop)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (*moved = 0; *moved < size;) {
        size_t at = *moved, n = size - at < PIECE ? size - at : PIECE, whole = (n + page - 1) & ~(page - 1);
        for (size_t k = 0; k < n; k += PACKED_PIECE) {
            if (atomic_load(stop)) return error_say(-ECANCELED, "copying the weights was stopped");
            memcpy(mem + at + k, from + at + k, n - k < PACKED_PIECE ? n - k : PACKED_PIECE);
        }
        if (mprotect(mem + at, whole, PROT_READ) < 0 ||
            mremap(mem + at, whole, whole, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(from + at)) == MAP_FAILED)
            return error_say(-errno, "cannot move the copy of the weights: %s", strerror(errno));
        *moved = at + whole;
    }
    return 0;
}

int packed_make_huge(struct packed *p, const atomic_bool *stop)
{
    size_t size = p->bytes - (size_t)(packed_image(p) - p->map), page = (size_t)sysconf(_SC_PAGESIZE), moved;
    size_t whole = (size + page - 1) & ~(page - 1);
    if (size < PACKED_ALIGN || huge_bytes(p->map) >= size / 10 * 9 || !have_thp()) return 0;
    void *raw;
    int r = memory_map(&raw, whole + PACKED_ALIGN, true, "huge pages for the weights");
    if (r) return r;
    uint8_t *end = (uint8_t *)raw + whole + PACKED_ALIGN;
    uint8_t *mem = (uint8_t *)(((uintptr_t)raw + PACKED_ALIGN - 1) & ~(uintptr_t)(PACKED_ALIGN - 1));
    madvise(mem, whole, MADV_HUGEPAGE);
    r = replace(mem, packed_image(p), size, &moved, stop);
    if (mem > (uint8_t *)raw) munmap(raw, (size_t)(mem - (uint8_t *)raw));
    munmap(mem + moved, (size_t)(end - mem) - moved);
    return r ? r : 1;
}
