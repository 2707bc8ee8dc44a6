/* SPDX-License-Identifier: MIT */
#pragma once
/* A block of the KV pool has K and V of KV_BLOCK consecutive tokens, in all layers. Its id is its number in the pool.
 */
#include "kernels/kernels.h" /* KV_BLOCK */

#define KV_NO_BLOCK UINT32_MAX /* id of no block */
