/* SPDX-License-Identifier: MIT */
#pragma once
/* The payload of an index node, as the disk has it: the blocks of its groups with KV one after the other, each as the
 * backend reads and writes it. Recurrent states have files of their own. From any thread, as struct backend_ops'
 * kv_read and kv_write. */
#include "daemon/model/backend.h"

/* The bytes of one group's block. */
static inline uint64_t payload_block(const struct backend *b, uint32_t group)
{
    return kv_group_payload(&b->hparams.groups[group]);
}

/* The bytes of a payload without the blocks of the groups @lacks, a bit for each. 0: no layer has attention. */
static inline uint64_t payload_bytes(const struct backend *b, uint32_t lacks)
{
    uint64_t sum = 0;
    for (uint32_t g = 0; g < hparams_kv_groups(&b->hparams); g++)
        if (!(lacks >> g & 1)) sum += payload_block(b, g);
    return sum;
}

/* Copy @in [payload_bytes] to those of @blocks [n_groups] that are not KV_NO_BLOCK. */
static inline void payload_write(struct backend *b, const uint32_t *blocks, uint32_t lacks, const uint8_t *in)
{
    for (uint32_t g = 0; g < hparams_kv_groups(&b->hparams); g++) {
        if (lacks >> g & 1) continue;
        if (blocks[g] != KV_NO_BLOCK) b->ops->kv_write(b, g, blocks[g], in);
        in += payload_block(b, g);
    }
}
