/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to model-draft.c, model-pass.c and model-gain.c. */
#include "daemon/request/draft-model.h"
#include "daemon/request/model-draft.h"
#include "daemon/request/model-states.h"
#include "daemon/request/request.h"

#define MODEL_NEAR 8 /* items of a sequence that its first round may have to compute; before others are read */

/* Of a sequence. Its KV is that of the items [base, n), at the positions from 0 on; what follows in it are refused
 * tokens. An MTP layer reads with each item the state of the item before, so that base is not 0. Where it lacks a
 * state, after a preemption or a hit in the cache, it begins anew behind: RoPE needs no more than the distances. */
struct model_draft {
    struct kv_table table;
    uint32_t base, n;
    struct model_states states; /* of an MTP layer */
    struct calibration calibration;
    /* The last draft, whether it was computed or not. */
    uint32_t known; /* items of the sequence then */
    uint32_t n_ids;
    int32_t ids[SEQ_DRAFT_MAX];
    float probability[SEQ_DRAFT_MAX]; /* that the draft model gives */
    uint32_t idle;                    /* steps since then */
    uint32_t checked;                 /* items that it can read, from the first one on */
    bool off;                         /* it has items that the draft model cannot read */
    double owed;                      /* units of service that are not charged yet */
};

/* A sequence that a turn drafts for. */
struct model_place {
    struct seq *s;
    struct model_draft *d;
    uint32_t most;     /* tokens that the next step has room for */
    float chance;      /* that all tokens of its draft so far are accepted */
    bool takes, ended; /* it takes part in the next round; it has its draft */
};

struct model_drafter {
    struct draft_model *model; /* borrowed */
    struct kv_pool *pool;
    struct sched_time time; /* of its passes */
    bool warned;            /* that there is no room, or that a pass failed */
    uint64_t passes, tokens;
    /* The turn: */
    struct model_place *places; /* [parallel] */
    uint32_t n;
    double step_ms,
        tokens_step;   /* of the step with the drafts so far: expected time, with that of the passes, and tokens */
    double rows_ms;    /* of the rows that these drafts add to the step: expected */
    double passes_ms;  /* measured so far */
    uint32_t decoding; /* sequences that the step decodes */
    /* Of a pass: */
    struct batch_entry *entries; /* [parallel] */
    const uint32_t **tables;     /* [parallel] */
    uint8_t *want;               /* [batch_tokens] */
    float *logits;               /* [rows][vocab] */
    uint32_t rows;
    float *states; /* [parallel][dim] of the entries; then @next */
    float *next;   /* [parallel][dim] an MTP layer's of the last token of each place's draft; NULL: a model drafts */
};

static inline bool model_is_mtp(const struct model_drafter *m)
{
    return m->model->mtp;
}

static inline uint32_t model_dim(const struct model_drafter *m)
{
    return m->model->hparams.dim;
}

/* model-pass.c: compute passes. */

/* Compute items of @p, not the last one, so that at most MODEL_NEAR are left; a part of them, as many as @ms are
 * expected to suffice for. 0; else -errno. */
int model_read(struct core *core, struct model_drafter *m, struct model_place *p, double ms);
/* One round: a token for each place that takes part. 0; else -errno. */
int model_round(struct core *core, struct model_drafter *m);

/* model-gain.c: what is worth its time. */

/* Milliseconds of a row of a draft in the step, behind @pos items. */
double model_row_ms(const struct core *core, double pos);
/* Before the first round: expect the step without drafts. */
void model_expect(struct core *core, struct model_drafter *m);
/* Choose the places that take part in the next round. False: none. */
bool model_choose(const struct core *core, struct model_drafter *m);
/* The next @n items of @p, most of a prompt, will have paid for themselves when the answer is twice as long. */
bool model_reading_pays(const struct core *core, const struct model_drafter *m, const struct model_place *p,
                        uint32_t n);
