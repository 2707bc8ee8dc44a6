/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The tensor memory of KV blocks, one reserved anonymous mapping: what is never written takes no memory.
 * Layout: [layer][block][kv head], of each K and then V as the kernels lay them out (kernels/kv.h).
 */
#include "daemon/model/shape.h"
#include "kernels/kernels.h"

struct kv_memory {
    uint8_t *mem;
    size_t size, half; /* half: bytes of K (or V) of one block of one KV head */
    enum kern_kv type;
    uint32_t layers, blocks, kv_heads, head_dim;
};

/* As many blocks as @bytes hold. 0; -EINVAL when that is none, -ENOMEM; with a sentence. */
int kv_memory_init(struct kv_memory *kv, const struct shape *s, enum kern_kv type, uint64_t bytes);
void kv_memory_fini(struct kv_memory *kv);

size_t kv_memory_block_bytes(const struct kv_memory *kv); /* all layers */

/* K of one block of one KV head; V follows. */
static inline uint8_t *kv_memory_k(const struct kv_memory *kv, uint32_t layer, uint32_t block, uint32_t head)
{
    return kv->mem + (((size_t)layer * kv->blocks + block) * kv->kv_heads + head) * 2 * kv->half;
}

/* As the functions of struct backend_ops. They touch no memory but that of the blocks they are given, and change
 * nothing in *kv: kv_memory_read and kv_memory_write keep the promise to other threads without a lock. */
void kv_memory_copy(const struct kv_memory *kv, uint32_t dst, uint32_t src, uint32_t tokens);
void kv_memory_read(const struct kv_memory *kv, uint32_t block, void *out);
void kv_memory_write(const struct kv_memory *kv, uint32_t block, const void *in);

/* Only whole pages go: those that blocks share with others stay. Blocks that follow each other are better released at
 * once. Where the kernel has put a huge page behind several blocks (with THP "always"; nobody asks for them here), it
 * is split first: that takes some microseconds, and the parts still used are small pages from then on, with more TLB
 * misses in attention. */
void kv_memory_release(const struct kv_memory *kv, uint32_t first, uint32_t n);
