/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/kv-memory.h"
#include "daemon/backend/cpu/memory.h"
#include "libcommon/error.h"
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int map(struct kv_memory *kv, uint64_t blocks)
{
    void *p;
    kv->blocks = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
    kv->size = kv->blocks * kv_memory_block_bytes(kv);
    if (!kv->size) return 0;
    int r = memory_map(&p, kv->size, true, "the KV pool");
    if (!r) kv->mem = p;
    return r;
}

int kv_memory_init(struct kv_memory *kv, const struct hparams *s, uint32_t layers, enum kern_kv type, uint64_t bytes)
{
    *kv = (struct kv_memory){.type = type, .layers = layers, .kv_heads = s->kv_heads, .head_dim = s->head_dim};
    kv->half = kern_kv_bytes(type, s->head_dim);
    kv->each = (hparams_values(s) ? 2 : 1) * kv->half;
    size_t block = kv_memory_block_bytes(kv);
    if (bytes < block)
        return error_say(-EINVAL, "a KV pool of %llu bytes holds no block; one block of %d tokens takes %zu bytes",
                         (unsigned long long)bytes, KV_BLOCK, block);
    return map(kv, bytes / block);
}

int kv_memory_states(struct kv_memory *kv, uint64_t bytes, uint32_t blocks)
{
    *kv = (struct kv_memory){.layers = 1, .kv_heads = 1, .half = bytes, .each = bytes};
    return map(kv, blocks);
}

void kv_memory_fini(struct kv_memory *kv)
{
    if (kv->mem) munmap(kv->mem, kv->size);
    *kv = (struct kv_memory){0};
}

size_t kv_memory_block_bytes(const struct kv_memory *kv)
{
    return (size_t)kv->layers * kv->kv_heads * kv->each;
}

void kv_memory_copy(const struct kv_memory *kv, uint32_t dst, uint32_t src, uint32_t tokens)
{
    assert(dst < kv->blocks && src < kv->blocks && tokens <= KV_BLOCK);
    if (!kv->head_dim) memmove(kv_memory_state(kv, dst), kv_memory_state(kv, src), kv->each);
    for (uint32_t l = 0; kv->head_dim && l < kv->layers; l++)
        for (uint32_t h = 0; h < kv->kv_heads; h++)
            (kv->each > kv->half ? kern_kv_copy : kern_k_copy)(kv->type, kv_memory_k(kv, l, dst, h),
                                                               kv_memory_k(kv, l, src, h), tokens, kv->head_dim);
}

void kv_memory_read(const struct kv_memory *kv, uint32_t block, void *out)
{
    assert(block < kv->blocks);
    size_t per_layer = kv->each * kv->kv_heads;
    for (uint32_t l = 0; l < kv->layers; l++)
        memcpy((uint8_t *)out + l * per_layer, kv_memory_k(kv, l, block, 0), per_layer);
}

void kv_memory_write(const struct kv_memory *kv, uint32_t block, const void *in)
{
    assert(block < kv->blocks);
    size_t per_layer = kv->each * kv->kv_heads;
    for (uint32_t l = 0; l < kv->layers; l++)
        memcpy(kv_memory_k(kv, l, block, 0), (const uint8_t *)in + l * per_layer, per_layer);
}

void kv_memory_release(const struct kv_memory *kv, uint32_t first, uint32_t n)
{
    assert(first <= kv->blocks && n <= kv->blocks - first);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    size_t per_layer = kv->each * kv->kv_heads;
    for (uint32_t l = 0; l < kv->layers && n; l++) {
        uintptr_t from = (uintptr_t)kv_memory_k(kv, l, first, 0), to = from + n * per_layer;
        from = (from + page - 1) / page * page;
        to = to / page * page;
        if (from < to) madvise((void *)from, to - from, MADV_DONTNEED); /* fails for locked memory, which then stays */
    }
}
