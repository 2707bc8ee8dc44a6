/* SPDX-License-Identifier: MIT */
#pragma once
/* The logit biases of a request. */
#include "daemon/request/loaded-model.h"
#include "daemon/sample/processors.h"

/* The biases of @g, texts made ids: *out [*n] is the caller's to free; without biases both stay as they are. 0; -EINVAL
 * for an id that is none, a text that is not one token or a bias out of range; -EILSEQ: both set the error message;
 * -ENOMEM. */
int logit_biases_of(struct sample_bias **out, size_t *n, const struct loaded *m, const struct proto_generate *g);
