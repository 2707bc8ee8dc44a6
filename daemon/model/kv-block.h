/* SPDX-License-Identifier: MIT */
#pragma once
/* A block of a KV pool has K and V of KV_BLOCK consecutive tokens, in all layers of a group (struct kv_group). Its id is
 * its number in the pool of its group. */
#include "kernels/kernels.h" /* KV_BLOCK */

#define KV_GROUPS_MAX 4          /* groups of layers, each with its own pool of blocks */
#define KV_NO_BLOCK   UINT32_MAX /* id of no block */
