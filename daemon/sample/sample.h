/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * From a row of logits to a token: a chain of processors, then one uniform number. Pure: the same row, history, state
 * and number give the same token.
 */
#include "daemon/model/gguf.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sample_bias {
    int32_t id; /* of the vocabulary */
    float bias;
};

struct sample_params {
    uint32_t top_k;                 /* 0: off */
    float top_p;                    /* [0, 1]; 1: off */
    float min_p;                    /* [0, 1]; 0: off */
    float typical_p;                /* [0, 1]; 1: off */
    float temperature;              /* 0: greedy */
    float repeat;                   /* repetition penalty, > 0; 1: off */
    float frequency;                /* penalty, [-2, 2]; 0: off */
    float presence;                 /* penalty, [-2, 2]; 0: off */
    uint32_t repeat_n;              /* of the newest tokens the three look at */
    float mirostat;                 /* tau, the surprise aimed at, bits; 0: off */
    float mirostat_eta;             /* learning rate, (0, 1] */
    const struct sample_bias *bias; /* [n_bias]; several of one id add up */
    size_t n_bias;
    const int32_t *ban; /* [n_ban] never sampled */
    size_t n_ban;
};

/* What a sampler remembers from one token of an answer to the next; zero before the first. */
struct sample_state {
    bool begun;
    double mu; /* mirostat: the greatest surprise that is let through, bits */
};

/* top-k 40, top-p 0.95, min-p 0.05, temperature 0.7; penalties (over 64 tokens), typical-p and mirostat off. */
void sample_params_init(struct sample_params *p);

/* Replace defaults by the file's general.sampling.{top_k,top_p,min_p,temp,penalty_repeat,penalty_freq,penalty_present,
 * penalty_last_n,mirostat,mirostat_tau,mirostat_eta}. Negative counts mean all. What cannot be followed (XTC, another
 * order) is logged. 0, or -EINVAL with a sentence. */
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
 * 1. bias: added to the logits of its ids; banned ids become -inf.
 * 2. penalties, of each id that is c > 0 times in the newest repeat_n of the history: a positive logit is divided by
 *    repeat, another multiplied (Keskar et al., "CTRL", arXiv:1909.05858, section 4.1, with the sign as everybody has
 *    it since); then c times frequency, and presence, are subtracted (OpenAI's API reference).
 * Temperature 0: the largest logit, of equals the lowest id. Otherwise the candidates, by falling logit (of equals the
 * lower id first), are cut, each probability being that among the candidates the cut is given; at least one stays:
 * 3. top-k: the first k.
 * 4. typical-p: the fewest whose probabilities sum to at least typical_p, taken by rising |-log p - H|, H the entropy
 *    (Meister et al., "Locally Typical Sampling", arXiv:2202.00666); of equals the first.
 * 5. top-p: the fewest, from the first, whose probabilities sum to at least top_p (Holtzman et al., arXiv:1904.09751).
 * 6. min-p: those with at least min_p times the first one's probability (Nguyen et al., arXiv:2407.01082).
 * 7. temperature: logits minus the first are divided by it.
 * 8. The first candidate whose cumulated probability exceeds u is taken.
 * With mirostat, version 2 of it (Basu et al., "Mirostat", arXiv:2007.14966, and the authors' own program) is in the
 * place of 3 to 7: logits are divided by the temperature; of all ids those stay whose surprise, -log2 p, is at most mu,
 * at first 2 tau; after 8 eta (surprise - tau) is subtracted from mu, with the surprise before the cut. @state may be
 * NULL without it.
 */
int sampler_pick(struct sampler *s, const struct sample_params *p, struct sample_state *state, const float *logits,
                 const int32_t *history, size_t n_history, double u, int32_t *id);
