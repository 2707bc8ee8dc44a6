/* SPDX-License-Identifier: MIT */
#pragma once
/* Sampling with a random number that the test chooses. */
#include "daemon/sample/sampling.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct fixture_request {
    struct sample_params p;
    const struct sample_bias *bias; /* [n_bias] */
    size_t n_bias;
    const int32_t *ban; /* [n_ban] */
    size_t n_ban;
};

/* Everything off, temperature 1. */
struct fixture_request fixture_plain(void);

/* A new sampling of @w picks one token. The result of logits_chain_pick(). */
int fixture_pick(struct sample_scratch *x, const struct fixture_request *w, const float *logits, const int32_t *history,
                 size_t n, double u, int32_t *id);
