/* SPDX-License-Identifier: MIT */
#pragma once
/* The parameters of the activation xIELU (arXiv 2411.13010), which each layer has. */
#include "daemon/model/gguf.h"

/* Read those of @layer from keys that are arrays of @n_layers numbers, or one number for all: out = softplus(alpha_p),
 * beta + softplus(alpha_n), beta, eps (kernels.h's xielu). 0; -EINVAL and the error message, which names the key. */
int xielu_read(const struct gguf *g, uint32_t n_layers, uint32_t layer, float out[4]);
