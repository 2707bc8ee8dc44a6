/* SPDX-License-Identifier: MIT */
#include "daemon/cache/host-pool.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/host-slots.h"
#include "daemon/cache/payload.h"
#include "daemon/cache/prefix/prefix-host.h"
#include "daemon/cache/prefix/prefix-state.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>

#define NEAR  4u /* memory is taken when less than one of so many blocks of the device is free, and then */
#define AHEAD 8u /* for one of so many blocks more than there are in slots */

struct host_pool {
    struct backend *backend;
    struct host_slots blocks, states;
};

uint8_t *host_pool_at(const struct host_pool *h, uint32_t slot, uint32_t group)
{
    uint64_t at = 0;
    for (uint32_t g = 0; g < group; g++) at += payload_block(h->backend, g);
    return host_slots_at(&h->blocks, slot) + at;
}

uint8_t *host_pool_state(const struct host_pool *h, uint32_t slot)
{
    return host_slots_at(&h->states, slot);
}

struct kv_pool *host_pool_slots(const struct host_pool *h)
{
    return h->blocks.pool;
}

struct kv_pool *host_pool_state_slots(const struct host_pool *h)
{
    return h->states.pool;
}

/* --- copies --- */

/* A prefix_host_fn. */
static bool copy(void *ctx, const struct prefix_info *info, uint8_t groups, uint32_t slot)
{
    const struct kv_cache *c = ctx;
    struct backend *b = c->backend;
    int r = 0;
    for (uint32_t g = 0; r == 0 && g < c->n_groups; g++)
        if (groups >> g & 1) r = b->ops->kv_save(b, g, info->blocks[g], host_pool_at(c->host, slot, g));
    host_slots_mark(&c->host->blocks, slot);
    return r == 0;
}

/* A prefix_state_copy_fn. */
static bool copy_state(void *ctx, const struct prefix_info *info, uint32_t slot)
{
    const struct kv_cache *c = ctx;
    struct backend *b = c->backend;
    if (c->shedding) return false;
    host_slots_mark(&c->host->states, slot);
    return b->ops->kv_save(b, c->state, info->state, host_pool_state(c->host, slot)) == 0;
}

bool host_pool_busy(const struct kv_cache *c)
{
    return c->host && (c->host->blocks.n_unsure || c->host->states.n_unsure);
}

static int wait_for(struct kv_cache *c, const struct host_slots *h, uint32_t slot)
{
    return h->unsure[slot] ? c->backend->ops->kv_saved(c->backend) : 0;
}

int host_pool_wait(struct kv_cache *c, uint32_t slot)
{
    return wait_for(c, &c->host->blocks, slot);
}

int host_pool_wait_state(struct kv_cache *c, uint32_t slot)
{
    return wait_for(c, &c->host->states, slot);
}

void host_pool_settle(struct kv_cache *c)
{
    struct host_pool *h = c->host;
    if (!host_pool_busy(c)) return;
    int r = c->backend->ops->kv_saved(c->backend);
    if (r < 0) log_warning("a part of the KV in host memory is lost: %s", error_text(r));
    if (r < 0 && h->blocks.n_unsure) prefix_host_lost(c->prefix, h->blocks.unsure);
    if (r < 0 && h->states.n_unsure) prefix_state_slots_lost(c->prefix, h->states.unsure);
    host_slots_settle(&h->blocks);
    host_slots_settle(&h->states);
}

/* Lets a job take memory for slots behind the blocks of @group, if few of these are free in one of the groups up to
 * @last. */
static void grow(const struct kv_cache *c, struct host_slots *h, uint32_t group, uint32_t last)
{
    for (uint32_t g = group; g <= last; g++)
        if (kv_pool_free_blocks(c->pools[g]) <= kv_pool_total(c->pools[g]) / NEAR) {
            host_slots_grow(h, kv_pool_total(c->pools[group]) / AHEAD + h->each);
            return;
        }
}

void host_pool_turn(struct kv_cache *c, bool stepped)
{
    if (!c->host) return;
    if (stepped) host_pool_settle(c);
    if (c->stopping) return;
    if (c->host->blocks.pool) grow(c, &c->host->blocks, 0, c->n_groups - 1);
    if (c->host->states.pool) grow(c, &c->host->states, c->state, c->state);
}

/* --- begin and end --- */

uint64_t host_pool_least(const struct backend *b)
{
    const struct kv_group *state = hparams_state(&b->hparams);
    return host_slots_stride(payload_bytes(b, 0)) + host_slots_stride(state ? state->state_bytes : 0);
}

/* Of @bytes, those for states: their part of the device's memory, with room for one state and one block at least. */
static uint64_t for_states(const struct kv_cache *c, uint64_t bytes, uint64_t payload, uint64_t state)
{
    if (!c->state || (payload && bytes < payload + state)) return 0;
    if (payload == 0) return bytes; /* no layer has attention */
    const double states = (double)c->backend->kv_blocks[c->state] * (double)state,
                 blocks = (double)c->backend->kv_blocks[0] * (double)payload;
    const uint64_t part = (uint64_t)((double)bytes * (states / (states + blocks)));
    if (part < state) return state;
    return part < bytes - payload ? part : bytes - payload;
}

int host_pool_new(struct kv_cache *c, uint64_t bytes, struct job_returns *jobs)
{
    struct backend *b = c->backend;
    const uint64_t payload = payload_bytes(b, 0), state = c->state ? b->hparams.groups[c->state].state_bytes : 0;
    const uint64_t stride = host_slots_stride(payload), state_stride = host_slots_stride(state);
    const uint64_t for_state = for_states(c, bytes, stride, state_stride);
    const uint64_t slots = payload ? (bytes - for_state) / stride : 0, states = state ? for_state / state_stride : 0;
    if ((slots == 0 && states == 0) || !b->ops->host_alloc) return 0;
    struct host_pool *h = c->host = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    h->backend = b;
    int r = host_slots_new(&h->blocks, b, jobs, payload, slots);
    if (r == 0) r = host_slots_new(&h->states, b, jobs, state, states);
    if (r == 0 && h->blocks.pool) prefix_add_host(c->prefix, h->blocks.pool, copy, spill_evicting, c);
    if (r == 0 && h->states.pool) prefix_add_state_slots(c->prefix, h->states.pool, copy_state, c);
    return r;
}

void host_pool_free(struct kv_cache *c)
{
    struct host_pool *h = c->host;
    if (!h) return;
    if (host_pool_busy(c)) h->backend->ops->kv_saved(h->backend);
    host_slots_free(&h->blocks);
    host_slots_free(&h->states);
    free(h);
    c->host = NULL;
}

static struct host_tier_stats stats_of(const struct host_slots *h)
{
    return (struct host_tier_stats){host_slots_all(h), host_slots_left(h), h->stride};
}

void host_pool_stats(const struct kv_cache *c, struct host_pool_stats *out)
{
    const struct host_pool *h = c->host;
    *out = (struct host_pool_stats){0};
    if (!h) return;
    out->blocks = stats_of(&h->blocks);
    out->states = stats_of(&h->states);
    out->bytes = out->blocks.slots * out->blocks.bytes + out->states.slots * out->states.bytes;
    out->bytes_taken = host_slots_taken(&h->blocks) + host_slots_taken(&h->states);
}
