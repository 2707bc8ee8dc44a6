/* SPDX-License-Identifier: MIT */
#include "daemon/request/draft-model.h"
#include "daemon/cache/kv/kv-table.h"
#include "daemon/request/loaded-model.h"
#include "daemon/request/model-states.h"
#include "libcommon/cgroup.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <stdlib.h>

static int check_vocabulary(struct draft_model *d, const struct tokenizer *model)
{
    struct tokenizer *own;
    int r = tokenizer_new(&own, d->gguf);
    if (r < 0) return r;
    r = tokenizer_same(model, own);
    if (r < 0) error_in(r, "another vocabulary");
    size_t n = tokenizer_vocab(own);
    tokenizer_free(own);
    if (r == 0 && n > d->hparams.vocab)
        r = error_say(-EINVAL, "the tokenizer has %zu tokens, the model %u", n, d->hparams.vocab);
    d->vocab = (uint32_t)(n < tokenizer_vocab(model) ? n : tokenizer_vocab(model));
    return r;
}

static int open_file(struct draft_model *d, const char *path, const struct tokenizer *model)
{
    int r = gguf_open(&d->gguf, path);
    if (r < 0) return r; /* the message has the path */
    r = hparams_read(&d->hparams, d->gguf);
    if (r == 0 && hparams_state(&d->hparams))
        r = error_say(-EOPNOTSUPP, "a model with recurrent layers ('%s') is no draft model", d->hparams.arch);
    if (r == 0) r = check_vocabulary(d, model);
    return r < 0 ? error_in(r, "%s", path) : 0;
}

int draft_model_open(struct draft_model **out, const char *path, const struct tokenizer *model)
{
    struct draft_model *d = calloc(1, sizeof(*d));
    if (!d) return error_origin(-ENOMEM);
    int r = open_file(d, path, model);
    if (r < 0) {
        draft_model_free(d);
        return error_in(r, "draft model");
    }
    *out = d;
    return 0;
}

int draft_model_mtp(struct draft_model **out, struct gguf *g, const struct hparams *model,
                    const struct tokenizer *tokenizer)
{
    size_t bytes;
    struct draft_model *d = calloc(1, sizeof(*d));
    if (!d) return error_origin(-ENOMEM);
    *d = (struct draft_model){.gguf = g, .mtp = true, .hparams = *model, .vocab = (uint32_t)tokenizer_vocab(tokenizer)};
    hparams_mtp(&d->hparams);
    int r = backend_check(NULL, g, &d->hparams, &bytes);
    if (r < 0) {
        free(d);
        return r;
    }
    *out = d;
    return 0;
}

struct draft_model *draft_model_free(struct draft_model *d)
{
    if (!d) return NULL;
    backend_free(d->backend);
    if (!d->mtp) gguf_close(d->gguf);
    free(d);
    return NULL;
}

uint64_t draft_model_kv(const struct draft_model *d, enum kern_kv type, uint64_t bytes, uint64_t model,
                        uint32_t parallel, uint32_t ctx)
{
    uint64_t block = load_block_bytes(&d->hparams, type), most = (uint64_t)parallel * kv_table_blocks(ctx);
    uint64_t blocks = bytes / (model + block);
    if (blocks > most) blocks = most;
    if (blocks > bytes / 4 / block) blocks = bytes / 4 / block;
    return blocks * block;
}

/* The model's states that an MTP layer reads: kept ones of each sequence, and those of a step. */
static uint64_t states_bytes(const struct draft_model *d, const struct backend *model, uint32_t parallel)
{
    const uint64_t rows = (uint64_t)parallel * MODEL_STATES_ROOM + model->config.batch_tokens;
    return d->mtp ? rows * d->hparams.dim * sizeof(float) : 0;
}

/* Before the kernel ends the daemon for want of memory. The model's KV may not be touched yet. */
static int check_memory(const struct draft_model *d, const struct backend *model, uint64_t kv_bytes, uint64_t states)
{
    char need[32], have[32];
    size_t weights;
    uint64_t left = cgroup_memory_available("");
    int r = backend_check(NULL, d->gguf, &d->hparams, &weights);
    const uint64_t all = r < 0 ? 0 : weights + kv_bytes + states + model->config.kv_bytes;
    if (r < 0 || left == 0 || all <= left) return r;
    return error_say(-ENOMEM, "it and the KV of both models need %s, and there are %s", format_size(need, all),
                     format_size(have, left));
}

int draft_model_load(struct draft_model *d, struct backend *model, uint64_t kv_bytes, uint32_t ctx, uint32_t parallel)
{
    struct backend_config bc = model->config;
    bc.pool = model->ops->compute_pool ? model->ops->compute_pool(model) : NULL;
    bc.backend = NULL;
    /* beside a model on a device, a layer of it that has room there is computed there, all else by the CPU */
    bc.device.kind = d->mtp && model->config.device.kind != DEVICE_CPU ? DEVICE_AUTO : DEVICE_CPU;
    bc.ctx = ctx;
    bc.kv_bytes = kv_bytes;
    bc.batch_tokens = DRAFT_MODEL_TOKENS;
    bc.window_group = false;
    bc.packed_dir = NULL;
    bc.mtp_of = d->mtp ? model : NULL;
    int r = check_memory(d, model, kv_bytes, states_bytes(d, model, parallel));
    if (r == 0) r = backend_new(&d->backend, d->gguf, &bc);
    return r < 0 ? error_in(r, "%s %s", d->mtp ? "MTP layer of" : "draft model", gguf_path(d->gguf)) : 0;
}
