/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The tensor memory of one group's KV blocks: one anonymous mapping. Pages that are never written take no memory.
 * Layout: [layer of the group][block][kv head], of each K and then V as the kernels lay them out (kernels/kv.h). Of
 * states (KV_STATE): [block][layer of the group][hparams.recurrent.floats].
 */
#include "daemon/model/hparams.h"
#include "kernels/kernels.h"

/* K and V of a layer. */
struct kv_shape {
    size_t half, each;           /* bytes of K of one block of one KV head; of its K and V */
    uint32_t kv_heads, head_dim; /* head_dim 0: states; as if of one layer and head */
};

struct kv_memory {
    uint8_t *mem;
    size_t size, stride; /* stride: bytes of one block in one layer, as many as the largest needs */
    enum kern_kv type;
    uint32_t layers, blocks;
    struct kv_shape shapes[2];              /* of layers that see everything, and of those with a window */
    uint8_t slides[HPARAMS_LAYERS_MAX / 8]; /* a bit for each layer of the group: it has the second shape */
};

/* The memory of @group, of @layers layers (> 0): map as many blocks as fit into @bytes. 0; -EINVAL if that is none,
 * -ENOMEM. Errors set the error message. */
int kv_memory_init(struct kv_memory *kv, const struct hparams *s, uint32_t group, uint32_t layers, enum kern_kv type,
                   uint64_t bytes);
/* The same without memory: mem stays NULL. Of a backend that has the blocks elsewhere, in the same layout; it may map
 * the memory later (0; -ENOMEM and the error message). */
int kv_memory_plan(struct kv_memory *kv, const struct hparams *s, uint32_t group, uint32_t layers, enum kern_kv type,
                   uint64_t bytes);
int kv_memory_map(struct kv_memory *kv);
/* @blocks states of @bytes each, a multiple of 64; or blocks of a group without layers, of 0 bytes. 0, or -ENOMEM and
 * the error message. */
int kv_memory_states(struct kv_memory *kv, uint64_t bytes, uint32_t blocks);
void kv_memory_fini(struct kv_memory *kv);

size_t kv_memory_block_bytes(const struct kv_memory *kv); /* all its layers */

static inline const struct kv_shape *kv_memory_shape(const struct kv_memory *kv, uint32_t layer)
{
    return &kv->shapes[kv->slides[layer / 8] >> layer % 8 & 1];
}

/* K of one block of one KV head; V follows, unless it is a part of K (each is half). */
static inline uint8_t *kv_memory_k(const struct kv_memory *kv, uint32_t layer, uint32_t block, uint32_t head)
{
    return kv->mem + ((size_t)layer * kv->blocks + block) * kv->stride + head * kv_memory_shape(kv, layer)->each;
}

/* The state @block. */
static inline float *kv_memory_state(const struct kv_memory *kv, uint32_t block)
{
    return (float *)(kv->mem + (size_t)block * kv->stride);
}

/* As the functions of struct backend_ops. They access only the memory of the given blocks and do not change *kv, so
 * that kv_memory_read and kv_memory_write need no lock. */
void kv_memory_copy(const struct kv_memory *kv, uint32_t dst, uint32_t src, uint32_t tokens);
void kv_memory_read(const struct kv_memory *kv, uint32_t block, void *out);
void kv_memory_write(const struct kv_memory *kv, uint32_t block, const void *in);

/* Releases whole pages only; a page that holds a part of another block stays. One call for consecutive blocks releases
 * more than several calls. With THP "always", the kernel may have mapped a huge page (this code does not ask for them).
 * It then splits that page, which takes some microseconds; the remaining parts are small pages, with more TLB misses in
 * attention. */
void kv_memory_release(const struct kv_memory *kv, uint32_t first, uint32_t n);
