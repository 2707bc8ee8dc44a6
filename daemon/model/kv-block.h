/* SPDX-License-Identifier: MIT */
#pragma once
/* Blocks of the KV pool: a block has K and V of KV_BLOCK consecutive tokens, in all layers. It is known by its number.
 */
#include "kernels/kernels.h" /* KV_BLOCK */

#define KV_NO_BLOCK UINT32_MAX /* in place of a block's number: there is none */
