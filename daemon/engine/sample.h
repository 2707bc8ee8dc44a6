/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * From a row of logits to a token: a chain of processors (bias, repetition penalty, top-k, top-p, min-p, temperature),
 * then one uniform number. Pure: the same row, history and number give the same token.
 */
#include "daemon/model/gguf.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sample_params {
    uint32_t top_k;     /* 0: off */
    float top_p;        /* [0, 1]; 1: off */
    float min_p;        /* [0, 1]; 0: off */
    float temperature;  /* 0: greedy */
    float repeat;       /* repetition penalty, > 0; 1: off */
    uint32_t repeat_n;  /* of the newest tokens it looks at */
    const int32_t *ban; /* [n_ban] never sampled */
    size_t n_ban;
};

/* top-k 40, top-p 0.95, min-p 0.05, temperature 0.7, no penalty (over 64 tokens). */
void sample_params_init(struct sample_params *p);

/* Replace defaults by the file's general.sampling.{top_k,top_p,min_p,temp,penalty_repeat,penalty_last_n}. 0, or -EINVAL
 * with a sentence. */
int sample_params_file(struct sample_params *p, const struct gguf *g);

/* Replace by what a request gives (NAN and -1: not given). 0, or -EINVAL with a sentence. */
int sample_params_request(struct sample_params *p, const struct proto_sampling *s);

struct sampler; /* scratch memory for one vocabulary; one thread at a time */

int sampler_new(struct sampler **out, uint32_t vocab); /* 0 or -ENOMEM */
struct sampler *sampler_free(struct sampler *s);       /* NULL ok, returns NULL */

/*
 * The token for @logits [vocab] (not changed) after @history [n_history] (prompt and answer so far), @u uniform in [0,
 * 1). Writes *id on 0; -EIO with a sentence when no logit is a number.
 *
 * bias: banned ids become -inf. penalty: of each id in the newest repeat_n of the history, a positive logit is divided
 * by repeat, another multiplied. Temperature 0: the largest logit, of equals the lowest id. Otherwise the candidates,
 * by falling logit (of equals the lower id first), are cut by top-k (the first k); top-p (the fewest whose
 * probabilities sum to at least top_p); min-p (those with at least min_p times the first one's probability); always at
 * least one stays. Then logits minus the first are divided by the temperature and the first candidate whose cumulated
 * probability exceeds u is taken.
 */
int sampler_pick(struct sampler *s, const struct sample_params *p, const float *logits, const int32_t *history,
                 size_t n_history, double u, int32_t *id);
