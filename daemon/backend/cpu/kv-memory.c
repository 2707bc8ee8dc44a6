/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/kv-memory.h"
#include "daemon/backend/cpu/memory.h"
#include "daemon/model/backend.h"
#include "libcommon/error.h"
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void count(struct kv_memory *kv, uint64_t blocks)
{
    kv->blocks = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
    kv->size = kv->blocks * kv_memory_block_bytes(kv);
}

int kv_memory_map(struct kv_memory *kv)
{
    void *p;
    if (!kv->size || kv->mem) return 0;
    int r = memory_map(&p, kv->size, true, "the KV pool");
    if (!r) kv->mem = p;
    return r;
}

static struct kv_shape shape_of(const struct hparams *s, struct hparams_heads h, enum kern_kv type)
{
    const size_t half = kern_kv_bytes(type, h.head_dim);
    return (struct kv_shape){half, (hparams_values(s) ? 2 : 1) * half, h.kv_heads, h.head_dim};
}

int kv_memory_plan(struct kv_memory *kv, const struct hparams *s, uint32_t group, uint32_t layers, enum kern_kv type,
                   uint64_t bytes)
{
    uint32_t n = 0;
    *kv = (struct kv_memory){.type = type, .layers = layers, .stride = backend_kv_bytes(s, type, group)};
    for (uint32_t window = 0; window < 2; window++) kv->shapes[window] = shape_of(s, hparams_heads_of(s, window), type);
    for (uint32_t l = 0; l < s->n_layers && n < layers; l++) {
        if (!(s->by_layer.parts[l] & LAYER_ATTENTION) || !hparams_own_kv(s, l) || hparams_group(s, l) != group)
            continue;
        if (hparams_window(s, l)) kv->slides[n / 8] |= (uint8_t)(1 << n % 8);
        n++;
    }
    size_t block = kv_memory_block_bytes(kv);
    if (bytes < block)
        return error_say(-EINVAL, "a KV pool of %llu bytes holds no block; one block of %d tokens takes %zu bytes",
                         (unsigned long long)bytes, KV_BLOCK, block);
    count(kv, bytes / block);
    return 0;
}

int kv_memory_init(struct kv_memory *kv, const struct hparams *s, uint32_t group, uint32_t layers, enum kern_kv type,
                   uint64_t bytes)
{
    int r = kv_memory_plan(kv, s, group, layers, type, bytes);
    return r ? r : kv_memory_map(kv);
}

int kv_memory_states(struct kv_memory *kv, uint64_t bytes, uint32_t blocks)
{
    *kv = (struct kv_memory){.layers = 1, .stride = bytes, .shapes[0] = {.half = bytes, .each = bytes, .kv_heads = 1}};
    count(kv, blocks);
    return kv_memory_map(kv);
}

void kv_memory_fini(struct kv_memory *kv)
{
    if (kv->mem) munmap(kv->mem, kv->size);
    *kv = (struct kv_memory){0};
}

size_t kv_memory_block_bytes(const struct kv_memory *kv)
{
    return (size_t)kv->layers * kv->stride;
}

void kv_memory_copy(const struct kv_memory *kv, uint32_t dst, uint32_t src, uint32_t tokens)
{
    assert(dst < kv->blocks && src < kv->blocks && tokens <= KV_BLOCK);
    if (!kv->mem) return; /* a model without KV */
    if (!kv->shapes[0].head_dim) {
        memmove(kv_memory_state(kv, dst), kv_memory_state(kv, src), kv->stride);
        return;
    }
    for (uint32_t l = 0; l < kv->layers; l++) {
        const struct kv_shape *s = kv_memory_shape(kv, l);
        for (uint32_t h = 0; h < s->kv_heads; h++)
            (s->each > s->half ? kern_kv_copy : kern_k_copy)(kv->type, kv_memory_k(kv, l, dst, h),
                                                             kv_memory_k(kv, l, src, h), tokens, s->head_dim);
    }
}

void kv_memory_read(const struct kv_memory *kv, uint32_t block, void *out)
{
    assert(block < kv->blocks);
    if (!kv->mem) return;
    for (uint32_t l = 0; l < kv->layers; l++)
        memcpy((uint8_t *)out + l * kv->stride, kv_memory_k(kv, l, block, 0), kv->stride);
}

void kv_memory_write(const struct kv_memory *kv, uint32_t block, const void *in)
{
    assert(block < kv->blocks);
    if (!kv->mem) return;
    for (uint32_t l = 0; l < kv->layers; l++)
        memcpy(kv_memory_k(kv, l, block, 0), (const uint8_t *)in + l * kv->stride, kv->stride);
}

void kv_memory_release(const struct kv_memory *kv, uint32_t first, uint32_t n)
{
    assert(first <= kv->blocks && n <= kv->blocks - first);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (uint32_t l = 0; l < kv->layers && n; l++) {
        uintptr_t from = (uintptr_t)kv_memory_k(kv, l, first, 0), to = from + n * kv->stride;
        from = (from + page - 1) / page * page;
        to = to / page * page;
        if (from < to) madvise((void *)from, to - from, MADV_DONTNEED); /* fails for locked memory, which then stays */
    }
}
