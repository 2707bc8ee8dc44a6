/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The processors of hob. Each constructor: 0, and the caller owns *out; or -ENOMEM.
 *
 * The order is fixed, for any request:
 * 1. bias: added to the logits of its ids; banned ids become -inf.
 * 2. penalties, of each id that is c > 0 times in the newest repeat_n of the history: a positive logit is divided by
 *    repeat, another multiplied (Keskar et al., "CTRL", arXiv:1909.05858, section 4.1, with the usual correction of the
 *    sign); then c times frequency, and presence, are subtracted (OpenAI's API reference).
 * 3. further processors, in the order they were added.
 * 4. a sampler: greedy for temperature 0, otherwise mirostat if it is on, otherwise truncation.
 */
#include "daemon/sample/chain.h"
#include "daemon/sample/params.h"

/* @bias [n_bias]: several of one id add up; @ban [n_ban]: ids that are never sampled. Both are copied; ids outside the
 * vocabulary are ignored. */
int bias_processor_new(struct logits_processor **out, const struct sample_bias *bias, size_t n_bias, const int32_t *ban,
                       size_t n_ban);

int penalties_processor_new(struct logits_processor **out, const struct sample_params *p);

/* The largest logit; of equal ones the lowest id. */
int greedy_sampler_new(struct logits_processor **out);

/*
 * Candidates by falling logit (of equal ones the lower id first) are cut. Each probability is the one among the
 * candidates that the cut gets; at least one candidate stays.
 * 1. top-k: the first k.
 * 2. typical-p: the fewest whose probabilities sum to at least typical_p, taken by rising |-log p - H|, H the entropy
 *    (Meister et al., "Locally Typical Sampling", arXiv:2202.00666); of equal ones the first.
 * 3. top-p: the fewest, from the first, whose probabilities sum to at least top_p (Holtzman et al., arXiv:1904.09751).
 * 4. min-p: those with at least min_p times the first one's probability (Nguyen et al., arXiv:2407.01082).
 * 5. temperature: logits minus the first are divided by it.
 * 6. The first candidate whose cumulated probability exceeds u is picked.
 */
int truncation_sampler_new(struct logits_processor **out, const struct sample_params *p);

/*
 * Mirostat, version 2 (Basu et al., "Mirostat", arXiv:2007.14966, and the authors' program): logits are divided by the
 * temperature; of all ids those stay whose surprise, -log2 p, is at most mu, at first 2 tau; the first whose cumulated
 * probability exceeds u is picked. When it is accepted, eta (surprise - tau) is subtracted from mu, with the surprise
 * before the cut. An accepted token that the sampler did not pick leaves mu as it is. It keeps mu for each accepted
 * token, so that a rollback is exact.
 */
int mirostat_sampler_new(struct logits_processor **out, const struct sample_params *p);
