/* SPDX-License-Identifier: MIT */
#pragma once
/* The types of tensors that can be computed with. */
#include "kernels/kernels.h"

/* The kernels' type for ggml's type number. Returns 0, or 1 if the kernels have no such type. */
int tensor_type(uint32_t ggml, enum kern_type *out);
