/* SPDX-License-Identifier: MIT */
/*
 * Shared memory: addresses, copies that arrive as late as they may, and barriers.
 */
#include "cta.h"

#define DYNAMIC_AT  0x400u     /* the addresses of dynamic shared memory begin here, */
#define STATIC_AT   0x1000000u /* those of variables here: in a section, and STATIC_EACH further, others */
#define STATIC_EACH 0x10000u

/* --- addresses --- */

void *emulated_room()
{
    return cta.room;
}

uint32_t emulated_shared_at(const void *p)
{
    const uint8_t *at = (const uint8_t *)p, *begin = (const uint8_t *)cta.kernel->begin;
    if (at >= cta.room && at <= cta.room_end) return DYNAMIC_AT + (uint32_t)(at - cta.room);
    if (at >= begin && at < (const uint8_t *)cta.kernel->end) return STATIC_AT + (uint32_t)(at - begin);
    for (uint32_t i = 0; i < cta.n_statics; i++)
        if (at >= cta.statics[i].at && at < cta.statics[i].at + cta.statics[i].bytes)
            return STATIC_AT + (i + 1) * STATIC_EACH + (uint32_t)(at - cta.statics[i].at);
    emulated_fault("%p is not in shared memory", p);
}

void emulated_static(void *p, size_t bytes)
{
    for (uint32_t i = 0; i < cta.n_statics; i++)
        if (cta.statics[i].at == p) return;
    if (cta.n_statics == MOST_STATICS || bytes > STATIC_EACH) emulated_fault("too much static shared memory");
    cta.statics[cta.n_statics].at = (uint8_t *)p;
    cta.statics[cta.n_statics++].bytes = bytes;
    memset(p, POISON, bytes);
}

/* The same of a variable in a section, number 0, or one that has been entered. */
static void *static_pointer(uint32_t at, size_t bytes)
{
    const uint32_t i = (at - STATIC_AT) / STATIC_EACH, in = (at - STATIC_AT) % STATIC_EACH;
    char *begin = i ? (char *)cta.statics[i - 1].at : cta.kernel->begin;
    const size_t all = !i ? (size_t)(cta.kernel->end - begin) : i > cta.n_statics ? 0 : cta.statics[i - 1].bytes;
    if (in + bytes > all) emulated_fault("%zu bytes at 0x%x are not in shared memory", bytes, at);
    return begin + in;
}

void *emulated_shared_pointer(uint32_t at, size_t bytes)
{
    if (at >= STATIC_AT) return static_pointer(at, bytes);
    if (at < DYNAMIC_AT || at - DYNAMIC_AT + bytes > cta.room_bytes)
        emulated_fault("%zu bytes at 0x%x are not in shared memory", bytes, at);
    return cta.room + (at - DYNAMIC_AT);
}

/* --- copies of a thread --- */

void emulated_copy_later(void *to, const void *from, size_t bytes)
{
    struct fiber *f = cta.now;
    if (f->n == COPIES) emulated_fault("more than %d copies are under way", COPIES);
    f->copies[(f->first + f->n++) % COPIES] = {to, from, (uint32_t)bytes, f->group};
}

void emulated_copy_commit()
{
    cta.now->group++;
}

void emulated_copy_wait(unsigned groups)
{
    struct fiber *f = cta.now;
    for (; f->n; f->n--, f->first = (f->first + 1) % COPIES) {
        const struct copy *c = &f->copies[f->first];
        if (f->group - c->group <= groups) return;
        memcpy(c->to, c->from, c->bytes);
    }
}

/* --- barriers in shared memory --- */

/* In the 64 bits of a barrier. A phase ends when all have arrived and no bytes are expected any more. */
struct bar {
    uint32_t phase : 8, all : 12, left : 12; /* all: threads that arrive in a phase; left: in this one */
    int32_t bytes;
};

static struct bar *bar_at(uint32_t at)
{
    if (at % sizeof(struct bar)) emulated_fault("a barrier at 0x%x is not aligned", at);
    return (struct bar *)emulated_shared_pointer(at, sizeof(struct bar));
}

static void end_phase(struct bar *b)
{
    if (b->left || b->bytes) return;
    b->phase++;
    b->left = b->all;
}

static void arrive(uint32_t at, uint32_t bytes)
{
    struct bar *b = bar_at(at);
    if (!b->left) emulated_fault("more threads arrive at a barrier than it has");
    b->left--;
    b->bytes += (int32_t)bytes;
    end_phase(b);
}

void ptx_mbarrier_init_shared_b64(uint32_t bar, uint32_t n)
{
    *bar_at(bar) = {0, n & 0xfff, n & 0xfff, 0};
}

void ptx_mbarrier_arrive_shared_b64(uint32_t bar)
{
    arrive(bar, 0);
}

void ptx_mbarrier_arrive_expect_tx_shared_b64(uint32_t bar, uint32_t bytes)
{
    arrive(bar, bytes);
}

void ptx_mbarrier_try_wait_parity_shared_b64(uint32_t at, uint32_t parity)
{
    const struct bar *b = bar_at(at);
    uint32_t word;
    while (b->phase % 2 == parity) {
        memcpy(&word, b, sizeof(word));
        emulated_wait("mbarrier.try_wait", (const uint32_t *)b, word);
    }
}

/* A copy that has not arrived. */
struct bulk {
    void *to;
    const void *from;
    uint32_t bytes, bar;
};
static struct bulk bulks[COPIES];
static uint32_t first_bulk, n_bulks;

void ptx_cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(uint32_t to, const void *from, uint32_t bytes,
                                                                        uint32_t bar)
{
    if (bytes % 16 || to % 16 || (uintptr_t)from % 16)
        emulated_fault("cp.async.bulk: %u bytes from %p to 0x%x: no multiples of 16", bytes, from, to);
    if (n_bulks == COPIES) emulated_fault("more than %d copies are under way", COPIES);
    bulks[(first_bulk + n_bulks++) % COPIES] = {emulated_shared_pointer(to, bytes), from, bytes, bar};
    if ((blockIdx.x + blockIdx.y) % 2) emulated_finish_bulk();
}

bool emulated_finish_bulk()
{
    if (!n_bulks) return false;
    const struct bulk b = bulks[first_bulk];
    first_bulk = (first_bulk + 1) % COPIES, n_bulks--;
    memcpy(b.to, b.from, b.bytes);
    struct bar *bar = bar_at(b.bar);
    bar->bytes -= (int32_t)b.bytes;
    end_phase(bar);
    return true;
}

void emulated_prepare_shared()
{
    const struct emulated_kernel_of *k = cta.kernel;
    memset(cta.room, POISON, cta.room_bytes);
    if (k->begin) memset(k->begin, POISON, (size_t)(k->end - k->begin));
    cta.n_statics = n_bulks = 0;
}
