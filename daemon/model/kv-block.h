/* SPDX-License-Identifier: MIT */
#pragma once
/* A block of a KV pool has K and V of KV_BLOCK consecutive tokens, in all layers of a group (struct kv_group). Its id
 * is its number in the pool of its group. */
#include "kernels/kernels.h" /* KV_BLOCK */
#include <stdint.h>

#define KV_GROUPS_MAX 4          /* groups of layers, each with its own pool of blocks */
#define KV_NO_BLOCK   UINT32_MAX /* in place of a block's number: there is none */

/* The first position that a token at @pos sees in layers with a window; @window 0: they see all. */
static inline uint32_t kv_window_first(uint32_t window, uint32_t pos)
{
    return window && pos >= window ? pos + 1 - window : 0;
}
