/* SPDX-License-Identifier: MIT */
/* How the memory of the devices is divided: weights and buffers, then KV, which is limited to what they leave. */
#include "daemon/backend/backends.h"
#include "daemon/backend/cuda/cuda.h"
#include "daemon/backend/cuda/shares.h"
#include "libcommon/error.h"

#define SPARE ((size_t)512 << 20) /* device memory that stays free, for the driver */
#define AGAIN ((size_t)128 << 20) /* what a second backend takes beside its allocations: kernels, at most */

#define TOKENS_LEAST 4096 /* of a sequence, which KV should hold, or other devices are asked */

#define MTP_SHARE 4 /* an MTP layer takes at most this part of what is left for KV */

#define TOKENS       2048 /* of a step, unless they are configured: at most, */
#define TOKENS_SHARE 16   /* and their buffers take at most this part of the free memory */

/* Products and attention of 2048 tokens keep all multiprocessors busy; a step of them takes less time than one of
 * BACKEND_TOKENS on a CPU. Fewer, where their buffers would need a large part of the memory that is @left. */
static uint32_t default_tokens(const struct hparams *s, uint32_t ctx, size_t left)
{
    uint32_t rows[2], n = TOKENS;
    while (n > BACKEND_TOKENS && cuda_buffers_bytes(s, n, ctx, &rows[0], &rows[1]) > left / TOKENS_SHARE) n /= 2;
    return n;
}

static uint32_t context_of(const struct hparams *s, const struct backend_config *c)
{
    return c->ctx && c->ctx < s->ctx ? c->ctx : s->ctx;
}

/* What the devices have left, and what the buffers of a step take. */
static int measure(struct cuda_shares *p, const struct cuda_backend *x, struct backend_config *config)
{
    const struct hparams *s = p->s;
    const uint32_t ctx = context_of(s, config);
    size_t least = SIZE_MAX, all = 0;
    uint32_t rows[2];
    int r = 0;
    for (uint32_t i = 0; !r && i < x->n; i++) {
        const struct cuda_device *d = &x->devices[i].device;
        r = cuda_device_use(d);
        if (!r) r = cuda_result(d, d->driver->cuMemGetInfo(&p->of[i].left, &all), "memory");
        if (p->of[i].left < least) least = p->of[i].left;
    }
    if (!config->batch_tokens) config->batch_tokens = default_tokens(s, ctx, least);
    const size_t texts = s->embedding.whole ? config->batch_tokens * backend_kv_bytes(s, KERN_KV_F32, 0) : 0;
    for (uint32_t i = 0; i < x->n; i++)
        p->of[i].fixed = texts + SPARE + cuda_buffers_bytes(s, config->batch_tokens, ctx, &rows[0], &rows[1]);
    p->n = x->n;
    return r;
}

/* How much KV a layer has beside the other layers with attention: its bytes for a token, or less, where layers with a
 * window are a group of their own, which keeps fewer tokens. */
static double layer_weight(const struct hparams *s, const struct backend_config *c, uint32_t l)
{
    const uint32_t g = hparams_group(s, l), ctx = context_of(s, c);
    const uint32_t chain = cuda_divide(ctx < CPU_CHAIN_TOKENS ? ctx : CPU_CHAIN_TOKENS, KV_BLOCK);
    const double all = (double)backend_kv_bytes(s, c->kv_type, g);
    if (!(s->by_layer.parts[l] & LAYER_ATTENTION) || !hparams_own_kv(s, l)) return 0;
    if (s->groups[g].kind != KV_WINDOW) return all;
    const double blocks = (double)kv_group_blocks(&s->groups[g], c->batch_tokens);
    return blocks < chain ? all * blocks / chain : all;
}

/* What the states get of @bytes of KV. */
static double states_of(const struct hparams *s, const struct backend_config *c, double bytes)
{
    const struct kv_group *g = hparams_state(s);
    const double block = (double)backend_kv_bytes(s, c->kv_type, 0) * s->groups[0].n_layers;
    if (!g) return 0;
    double all = c->states ? (double)c->states * (double)g->state_bytes : block > 0 ? bytes / 2 : bytes;
    const double most = block > 0 ? bytes / block / CPU_STATE_BLOCKS * (double)g->state_bytes : bytes;
    if (!c->states && all > most) all = most;
    return all < bytes ? all : bytes;
}

/* About what the layers get of @bytes of KV blocks and states (daemon/backend/cpu/kv-share.c). */
static void share_kv(struct cuda_shares *p, const struct backend_config *c, double bytes)
{
    struct hparams s = *p->s;
    double sum = 0;
    if (c->window_group) hparams_split(&s);
    for (uint32_t l = 0; l < s.n_layers; l++) sum += layer_weight(&s, c, l);
    const struct kv_group *g = hparams_state(&s);
    const double states = states_of(&s, c, bytes);
    for (uint32_t l = 0; l < s.n_layers; l++) {
        p->kv[l] = sum > 0 ? (bytes - states) * layer_weight(&s, c, l) / sum : 0;
        if (g && s.by_layer.parts[l] & LAYER_RECURRENT) p->kv[l] += states / g->n_layers;
    }
}

/* Bytes of the device's weights and buffers. */
static size_t used_on(const struct cuda_shares *p, uint32_t i)
{
    return cuda_shares_weights(p, cuda_shares_first(p, i), p->of[i].end) + p->of[i].fixed;
}

/* Bytes of KV that the device has room for; negative: its weights do not fit. */
static double room_for_kv(const struct cuda_shares *p, uint32_t i)
{
    return (double)p->of[i].left - (double)used_on(p, i);
}

/* -ENOMEM and the error message unless the weights fit. */
static int check_room(const struct cuda_shares *p, const struct cuda_backend *x)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct cuda_device *d = &x->devices[i].device;
        const size_t used = used_on(p, i), left = p->of[i].left;
        if (used < left) continue;
        if (p->n == 1)
            return error_say(-ENOMEM, "%s: the weights and buffers need %zu MiB of device memory, %zu MiB are free",
                             d->name, used >> 20, left >> 20);
        return error_say(-ENOMEM, "%s: layers %u to %u and the buffers need %zu MiB of device memory, %zu MiB are free",
                         d->name, cuda_shares_first(p, i), p->of[i].end - 1, used >> 20, left >> 20);
    }
    return 0;
}

/* A pool of @bytes in place of what is configured: it has as many states in proportion, at least one. */
static void lower_kv(struct backend_config *c, uint64_t bytes)
{
    const double share = c->kv_bytes ? (double)bytes / (double)c->kv_bytes : 1;
    const uint32_t states = (uint32_t)((double)c->states * share);
    if (c->states) c->states = states ? states : 1;
    c->kv_bytes = bytes;
}

/* KV takes what the weights and the buffers leave of the devices' memory, at most. */
static void limit_kv(const struct cuda_shares *p, struct backend_config *config, double kv)
{
    double share = 1;
    for (uint32_t i = 0; i < p->n && kv > 0; i++) {
        const double room = room_for_kv(p, i), own = cuda_shares_kv(p, cuda_shares_first(p, i), p->of[i].end);
        if (own * share > room) share = room / own;
    }
    const uint64_t limit = (uint64_t)(kv * share);
    if (limit < config->kv_bytes) lower_kv(config, limit);
}

/* Bytes of KV of a sequence of @tokens. */
static uint64_t sequence_bytes(const struct hparams *model, const struct backend_config *c, uint32_t tokens)
{
    struct hparams s = *model;
    if (c->window_group) hparams_split(&s);
    const uint64_t blocks = cuda_divide(tokens, KV_BLOCK);
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < hparams_kv_groups(&s); g++) {
        const uint64_t seen = g ? kv_group_blocks(&s.groups[g], c->batch_tokens) : blocks;
        bytes += (seen < blocks ? seen : blocks) * backend_kv_bytes(&s, c->kv_type, g) * s.groups[g].n_layers;
    }
    return bytes;
}

/* Beside the states, the pool that was limited to @config's holds a block of each group: 0, or -ENOMEM and the error
 * message; and, unless @given does not, a sequence of TOKENS_LEAST tokens, or of the context: 0, or 1 and the error
 * message of -ENOMEM. */
static int check_kv(const struct cuda_shares *p, const struct cuda_backend *x, const struct backend_config *config,
                    uint64_t given)
{
    const struct kv_group *g = hparams_state(p->s);
    const uint64_t states = g ? (config->states ? config->states : 1) * g->state_bytes : 0;
    const uint32_t ctx = context_of(p->s, config), many = ctx < TOKENS_LEAST ? ctx : TOKENS_LEAST;
    const uint64_t least = states + sequence_bytes(p->s, config, KV_BLOCK);
    const uint64_t need = states + sequence_bytes(p->s, config, many);
    if (config->kv_bytes >= need || (config->kv_bytes >= least && given < need)) return 0;
    error_say(-ENOMEM, "%s: the weights and buffers leave %zu KiB of device memory for KV, %u tokens need %zu KiB",
              x->name, (size_t)config->kv_bytes >> 10, many, (size_t)need >> 10);
    return config->kv_bytes >= least ? 1 : -ENOMEM;
}

int cuda_measure_mtp(const struct gguf *g, const struct hparams *model, const struct backend_config *c, size_t *bytes)
{
    struct hparams s = *model;
    uint32_t rows[2];
    *bytes = 0;
    if (!c->mtp.kv_bytes || c->mtp_of) return 0;
    hparams_mtp(&s);
    int r = backend_cpu.check(g, &s, bytes);
    *bytes +=
        AGAIN + c->mtp.kv_bytes + cuda_buffers_bytes(&s, c->mtp.batch_tokens, context_of(&s, c), &rows[0], &rows[1]);
    return r;
}

/* Leave room for the MTP layer, unless the KV pool would lose a large part of its own: then the CPU computes the layer.
 */
static void leave_room(struct cuda_shares *p, size_t mtp)
{
    const uint32_t last = p->n - 1;
    if ((double)mtp * MTP_SHARE <= room_for_kv(p, last)) p->of[last].fixed += mtp;
}

int cuda_plan_memory(struct cuda_shares *p, const struct cuda_backend *x, struct backend_config *config, size_t mtp)
{
    double kv = 0;
    int r = measure(p, x, config);
    if (!r) r = cuda_shares_balance(p);
    if (r) return r;
    leave_room(p, mtp);
    for (uint32_t i = 0; i < p->n; i++) kv += room_for_kv(p, i);
    if (kv > (double)config->kv_bytes) kv = (double)config->kv_bytes;
    if (kv < 0) kv = 0;
    struct backend_config lower = *config;
    lower_kv(&lower, (uint64_t)kv);
    share_kv(p, &lower, kv);
    cuda_shares_balance(p);
    r = check_room(p, x);
    if (r == -ENOMEM && p->n > 1) {
        share_kv(p, &lower, 0);
        cuda_shares_balance(p);
        r = check_room(p, x);
        share_kv(p, &lower, kv);
    }
    if (r) return r;
    const uint64_t given = config->kv_bytes;
    limit_kv(p, config, kv);
    return config->kv_bytes == given || p->s->embedding.whole ? 0 : check_kv(p, x, config, given);
}
