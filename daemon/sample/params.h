/* SPDX-License-Identifier: MIT */
#pragma once
/* Sampling parameters: defaults, then the model's file, then the request. */
#include "daemon/model/gguf.h"
#include "libcommon/proto.h"
#include <stdint.h>

struct sample_bias {
    int32_t id; /* of the vocabulary */
    float bias;
};

struct sample_params {
    uint32_t top_k;     /* 0: off */
    float top_p;        /* [0, 1]; 1: off */
    float min_p;        /* [0, 1]; 0: off */
    float typical_p;    /* [0, 1]; 1: off */
    float temperature;  /* 0: greedy */
    float repeat;       /* repetition penalty, > 0; 1: off */
    float frequency;    /* penalty, [-2, 2]; 0: off */
    float presence;     /* penalty, [-2, 2]; 0: off */
    uint32_t repeat_n;  /* the three penalties cover the newest repeat_n tokens */
    float mirostat;     /* tau, the surprise aimed at, bits; 0: off */
    float mirostat_eta; /* learning rate, (0, 1] */
};

/* top-k 40, top-p 0.95, min-p 0.05, temperature 0.7; penalties (over 64 tokens), typical-p and mirostat off. */
void sample_params_init(struct sample_params *p);

/* Replace defaults by the file's general.sampling.{top_k,top_p,min_p,temp,penalty_repeat,penalty_freq,penalty_present,
 * penalty_last_n,mirostat,mirostat_tau,mirostat_eta}. Negative counts mean all. Unsupported settings (XTC, another
 * order) are logged. 0; -EINVAL: sets the error message, @p is unchanged. */
int sample_params_file(struct sample_params *p, const struct gguf *g);

/* Replace by the values of a request (NAN and -1: not given). 0; -EINVAL: sets the error message. */
int sample_params_request(struct sample_params *p, const struct proto_sampling *s);
