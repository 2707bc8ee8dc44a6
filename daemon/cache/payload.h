/* SPDX-License-Identifier: MIT */
#pragma once
/* The payload of an index node, as the disk has it: its groups' blocks one after the other, each as the backend reads
 * and writes it. From any thread, as struct backend_ops' kv_read and kv_write. */
#include "daemon/model/backend.h"

/* The bytes of one group's block. */
static inline uint64_t payload_block(const struct backend *b, uint32_t group)
{
    return kv_group_payload(&b->hparams.groups[group]);
}

/* The bytes of a payload. */
static inline uint64_t payload_bytes(const struct backend *b)
{
    uint64_t sum = 0;
    for (uint32_t g = 0; g < b->hparams.n_groups; g++) sum += payload_block(b, g);
    return sum;
}

/* Copy @blocks [n_groups] to @out [payload_bytes], or @in to @blocks. */
static inline void payload_read(struct backend *b, const uint32_t *blocks, uint8_t *out)
{
    for (uint32_t g = 0; g < b->hparams.n_groups; out += payload_block(b, g++)) b->ops->kv_read(b, g, blocks[g], out);
}

static inline void payload_write(struct backend *b, const uint32_t *blocks, const uint8_t *in)
{
    for (uint32_t g = 0; g < b->hparams.n_groups; in += payload_block(b, g++)) b->ops->kv_write(b, g, blocks[g], in);
}
