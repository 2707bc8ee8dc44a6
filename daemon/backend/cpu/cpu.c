/* SPDX-License-Identifier: MIT */
/* The CPU backend: creation, destruction and KV. forward.c and attention.c compute. */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/backend/backends.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>

static void kv_copy(struct backend *b, uint32_t group, uint32_t dst, uint32_t src, uint32_t tokens)
{
    kv_memory_copy(&((struct cpu *)b)->kv[group], dst, src, tokens);
}

static int kv_read(struct backend *b, uint32_t group, uint32_t block, void *out)
{
    kv_memory_read(&((struct cpu *)b)->kv[group], block, out);
    return 0;
}

static void kv_write(struct backend *b, uint32_t group, uint32_t block, const void *in)
{
    kv_memory_write(&((struct cpu *)b)->kv[group], block, in);
}

static void kv_release(struct backend *b, uint32_t group, uint32_t first, uint32_t n)
{
    kv_memory_release(&((struct cpu *)b)->kv[group], first, n);
}

static int verify_weights(struct backend *b, const atomic_bool *stop)
{
    return weights_verify(&((struct cpu *)b)->weights, stop);
}

static void keep_weights(struct backend *b, const atomic_bool *stop)
{
    weights_keep(&((struct cpu *)b)->weights, stop);
}

static int fingerprint(const struct backend *b, struct fingerprint *out)
{
    return weights_model(&((const struct cpu *)b)->weights, out);
}

static void logsumexp(const struct backend *b, const float *logits, float *max, float *lse)
{
    ((const struct cpu *)b)->kern->logsumexp(max, lse, logits, b->hparams.vocab);
}

void cpu_close(struct cpu *c)
{
    if (!c->base.config.pool) compute_pool_free(c->pool);
    lora_fini(&c->lora);
    weights_fini(&c->weights);
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++) kv_memory_fini(&c->kv[g]);
    scratch_fini(&c->scratch);
    free(c->slopes);
    free(c->freqs[0]);
    free(c->freqs[1]);
}

static struct backend *cpu_free(struct backend *b)
{
    cpu_close((struct cpu *)b);
    free(b);
    return NULL;
}

static struct compute_pool *compute_pool(struct backend *b)
{
    return ((struct cpu *)b)->pool;
}

static void share(struct backend *b, compute_fn fn, void *ctx, uint32_t n, uint32_t least)
{
    compute_pool_run(((struct cpu *)b)->pool, fn, ctx, n, least, least);
}

static const struct backend_ops ops = {.forward = cpu_forward,
                                       .head = cpu_head,
                                       .kv_copy = kv_copy,
                                       .kv_read = kv_read,
                                       .kv_write = kv_write,
                                       .kv_release = kv_release,
                                       .verify_weights = verify_weights,
                                       .keep_weights = keep_weights,
                                       .fingerprint = fingerprint,
                                       .kv_identity = cpu_kv_identity,
                                       .logsumexp = logsumexp,
                                       .compute_pool = compute_pool,
                                       .share = share,
                                       .adapter_load = lora_load,
                                       .free = cpu_free};

/* The configured context selects LongRoPE's factors, as in llama.cpp, so that a position's angles never change. */
static int make_freqs(struct cpu *c)
{
    const struct hparams *s = &c->base.hparams;
    const struct weights *w = &c->weights;
    const float *factors = w->rope_factors;
    if (w->rope_long) factors = c->base.config.ctx > s->rope.original ? w->rope_long : w->rope_short;
    for (uint32_t i = 0; i < hparams_ropes(s); i++) {
        const uint32_t rotated = hparams_rotated(s, i);
        c->freqs[i] = calloc(rotated / 2, sizeof(*c->freqs[i]));
        if (!c->freqs[i]) return error_say(-ENOMEM, "out of memory for RoPE");
        const bool factored = !i || !s->desc->window.unscaled;
        rope_frequencies(i ? &s->window_rope : &s->rope, rotated, factored ? factors : NULL, c->freqs[i]);
    }
    return 0;
}

static int make_slopes(struct cpu *c)
{
    const struct hparams *s = &c->base.hparams;
    if (s->desc->encoder.alibi == 0) return 0;
    c->slopes = calloc(s->heads, sizeof(*c->slopes));
    for (uint32_t h = 0; c->slopes && h < s->heads; h++) c->slopes[h] = hparams_slope(s, h);
    return c->slopes ? 0 : error_say(-ENOMEM, "out of memory for ALiBi");
}

/* With several NUMA nodes, memory is interleaved before anything touches it: each thread reads from all nodes, whatever
 * the weights and KV blocks that it gets. */
static int start_threads(struct cpu *c, const struct backend_config *config)
{
    struct numa nodes = {0};
    cpu_set_t allowed;
    if (config->pool) {
        c->pool = config->pool;
        return 0;
    }
    if (!config->no_numa && sched_getaffinity(0, sizeof(allowed), &allowed) == 0) numa_read(&nodes, &allowed, "");
    if (config->threads == 1) nodes.n = 0; /* it reads fastest from where it runs */
    int r = nodes.n > 1 ? numa_interleave(&nodes) : 0;
    if (r < 0) log_warning("%s", error_text(r));
    return compute_pool_new_on(&c->pool, config->threads, &nodes);
}

/* Set all fields that do not depend on the weights. */
static int configure(struct cpu *c, const struct gguf *g, const struct backend_config *config)
{
    struct backend *b = &c->base;
    b->ops = &ops;
    b->config = *config;
    int r = hparams_read(&b->hparams, g);
    if (r) return r;
    if (config->window_group) hparams_split(&b->hparams);
    if (config->mtp_of && !hparams_drafts(&b->hparams))
        return error_say(-EINVAL, "%s: no layer that is computed predicts later tokens", gguf_path(g));
    if (config->mtp_of) hparams_mtp(&b->hparams);
    for (size_t i = 0; i < CPU_ONES; i++) c->ones[i] = 1;
    if (!b->config.batch_tokens) b->config.batch_tokens = BACKEND_TOKENS;
    if (!b->config.ctx || b->config.ctx > b->hparams.ctx) b->config.ctx = b->hparams.ctx;
    if (config->kv_type >= KERN_KV_TYPES) return error_say(-EOPNOTSUPP, "this KV type is not supported");
    c->kern = kernels_get(config->cpu);
    if (!c->kern) return error_say(-EINVAL, "HOB_CPU=%s: not one of scalar, avx2, avx512, amx", config->cpu);
    b->isa = c->kern->name;
    const char *refused = kernels_amx_refused();
    if (refused) log_info("this CPU has AMX, which is not used: %s", refused);
    return start_threads(c, config);
}

static int allocate(struct cpu *c, const struct gguf *g)
{
    struct backend *b = &c->base;
    const struct cpu *model = (const struct cpu *)b->config.mtp_of;
    int r = weights_load(&c->weights, g, &b->hparams, model ? &model->weights : NULL, c->pool, &b->config);
    if (!r) r = make_freqs(c);
    if (!r) r = make_slopes(c);
    if (!r) r = cpu_allocate_kv(c);
    return r ? r
             : scratch_init(&c->scratch, &b->hparams, b->config.batch_tokens, b->config.ctx,
                            compute_pool_threads(c->pool));
}

int cpu_open(struct cpu *c, const struct gguf *g, const struct backend_config *config)
{
    struct backend *b = &c->base;
    int r = configure(c, g, config);
    if (!r) r = allocate(c, g);
    if (r) return r;
    b->config.threads = compute_pool_threads(c->pool);
    compute_pool_describe(c->pool, b->threads_text, sizeof(b->threads_text));
    b->weight_bytes = c->weights.table.size;
    b->weights_mapped = c->weights.packed != NULL;
    return 0;
}

static int cpu_new(struct backend **out, const struct gguf *g, const struct backend_config *config)
{
    struct cpu *c = calloc(1, sizeof(*c));
    if (!c) return error_say(-ENOMEM, "out of memory for the CPU backend");
    int r = cpu_open(c, g, config);
    if (r)
        cpu_free(&c->base);
    else
        *out = &c->base;
    return r;
}

static int is_packed(const struct gguf *g, const char *dir)
{
    struct fingerprint model;
    int r = fingerprint_recall(&model, g, dir);
    return r < 0 ? r : r == 0 ? packed_exists(&model, dir) : 0;
}

const size_t backend_cpu_state = sizeof(struct cpu);

const struct backend_type backend_cpu = {.name = "cpu", .new = cpu_new, .check = weights_check, .is_packed = is_packed};
