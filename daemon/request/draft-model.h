/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The draft model: a second, smaller model with the vocabulary of the first one, beside it. It has KV memory of its own
 * and computes with the threads of the model's backend. Or the layer of the model's own file that predicts later tokens
 * (struct backend_config, mtp_of), in the same place. request/model-draft.h drafts with it.
 */
#include "daemon/model/backend.h"
#include "daemon/request/config.h"

#define DRAFT_MODEL_TOKENS 256 /* of a pass: the next tokens of all sequences, or a part of a prompt */

struct tokenizer;

struct draft_model {
    struct gguf *gguf;
    bool mtp;                /* it is a layer of the model: gguf is the model's */
    struct backend *backend; /* NULL: not loaded */
    struct hparams hparams;
    uint32_t vocab; /* it reads ids < vocab */
};

/* Open the file @path and check that its vocabulary is that of @model. 0, and the caller owns *out, without weights.
 * Else -errno, and the error message names the file and, of another vocabulary, the first difference. */
int draft_model_open(struct draft_model **out, const char *path, const struct tokenizer *model);
/* The MTP layer of the model @g with @model's shape (hparams_drafts), after a check of its tensors; as
 * draft_model_open. @g must stay. -EINVAL or -EOPNOTSUPP, and the error message names the tensor: it lacks one, or has
 * others. */
int draft_model_mtp(struct draft_model **out, struct gguf *g, const struct hparams *model,
                    const struct tokenizer *tokenizer);
struct draft_model *draft_model_free(struct draft_model *d); /* NULL ok, returns NULL */

/* Bytes of its KV in a budget of @bytes for both models: as many tokens as the model's has, with @model bytes a block;
 * at most a quarter, and at most @parallel sequences of @ctx tokens. 0: it has no room. */
uint64_t draft_model_kv(const struct draft_model *d, enum kern_kv type, uint64_t bytes, uint64_t model,
                        uint32_t parallel, uint32_t ctx);

/* Load its weights, with @kv_bytes of KV for @parallel sequences of @ctx tokens. It computes with the threads of
 * @model, which must stay. 0; -ENOMEM: there is no memory for it; else -errno; the error message names the file. */
int draft_model_load(struct draft_model *d, struct backend *model, uint64_t kv_bytes, uint32_t ctx, uint32_t parallel);
