/* SPDX-License-Identifier: MIT */
#include "daemon/cache/host-pool.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/payload.h"
#include "daemon/cache/prefix/prefix-host.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (16ull << 20) /* taken at once, which takes some milliseconds */
#define ALIGN       4096u

struct host_pool {
    struct backend *backend;
    struct kv_pool *slots;
    uint8_t **pieces;     /* [n_pieces] of the slots 0, 1, …; NULL: not taken yet */
    uint64_t stride;      /* bytes of a slot */
    uint32_t each, taken; /* slots of a piece; pieces that are taken, the first ones */
    bool failed;          /* there is no memory for another */
    bool *unsure;         /* [slots] copies to it may be under way, */
    uint32_t n_unsure;    /* to so many slots */
};

static uint64_t bytes_taken(const struct host_pool *h)
{
    return (uint64_t)h->taken * h->each * h->stride;
}

uint8_t *host_pool_at(const struct host_pool *h, uint32_t slot, uint32_t group)
{
    uint64_t at = slot % h->each * h->stride;
    for (uint32_t g = 0; g < group; g++) at += payload_block(h->backend, g);
    return h->pieces[slot / h->each] + at;
}

struct kv_pool *host_pool_slots(const struct host_pool *h)
{
    return h->slots;
}

/* The slot has memory. New slots are handed out in ascending order. */
static bool take_memory(struct host_pool *h, uint32_t slot)
{
    const uint32_t piece = slot / h->each;
    void *p;
    if (piece < h->taken) return true;
    if (h->failed) return false;
    assert(piece == h->taken);
    int r = h->backend->ops->host_alloc(h->backend, h->each * h->stride, &p);
    if (r < 0) {
        char size[32];
        log_warning("%s of host memory are used for KV, and no more: %s", format_size(size, bytes_taken(h)),
                    error_text(r));
        h->failed = true;
        return false;
    }
    h->pieces[piece] = p;
    h->taken++;
    return true;
}

/* A prefix_host_fn. */
static bool copy(void *ctx, const struct prefix_info *info, uint8_t groups, uint32_t slot)
{
    const struct kv_cache *c = ctx;
    struct backend *b = c->backend;
    int r = 0;
    if (!take_memory(c->host, slot)) return false;
    for (uint32_t g = 0; r == 0 && g < c->n_groups; g++)
        if (groups >> g & 1) r = b->ops->kv_save(b, g, info->blocks[g], host_pool_at(c->host, slot, g));
    c->host->n_unsure += !c->host->unsure[slot];
    c->host->unsure[slot] = true;
    return r == 0;
}

bool host_pool_busy(const struct kv_cache *c)
{
    return c->host && c->host->n_unsure;
}

int host_pool_wait(struct kv_cache *c, uint32_t slot)
{
    return c->host->unsure[slot] ? c->backend->ops->kv_saved(c->backend) : 0;
}

void host_pool_settle(struct kv_cache *c)
{
    struct host_pool *h = c->host;
    if (!host_pool_busy(c)) return;
    int r = c->backend->ops->kv_saved(c->backend);
    if (r < 0) log_warning("a part of the KV in host memory is lost: %s", error_text(r));
    if (r < 0) prefix_host_lost(c->prefix, h->unsure);
    memset(h->unsure, false, kv_pool_total(h->slots) * sizeof(*h->unsure));
    h->n_unsure = 0;
}

void host_pool_shrink(struct kv_cache *c)
{
    struct host_pool *h = c->host;
    if (h && h->failed && kv_pool_total(h->slots) > h->taken * h->each) kv_pool_limit(h->slots, h->taken * h->each);
}

int host_pool_new(struct kv_cache *c, uint64_t bytes)
{
    const uint64_t payload = payload_bytes(c->backend, 0), stride = (payload + ALIGN - 1) / ALIGN * ALIGN;
    uint64_t slots = payload ? bytes / stride : 0;
    if (slots == 0 || c->state || !c->backend->ops->host_alloc) return 0;
    if (slots >= KV_NO_BLOCK) slots = KV_NO_BLOCK - 1;
    struct host_pool *h = c->host = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    h->backend = c->backend;
    h->stride = stride;
    h->each = stride < PIECE_BYTES ? (uint32_t)(PIECE_BYTES / stride) : 1;
    if (h->each > slots) h->each = (uint32_t)slots;
    slots -= slots % h->each;
    h->pieces = calloc(slots / h->each, sizeof(*h->pieces));
    h->unsure = calloc(slots, sizeof(*h->unsure));
    int r = h->pieces && h->unsure ? kv_pool_new(&h->slots, (uint32_t)slots) : -ENOMEM;
    if (r == 0) prefix_add_host(c->prefix, h->slots, copy, spill_evicting, c);
    return r;
}

void host_pool_free(struct kv_cache *c)
{
    struct host_pool *h = c->host;
    if (!h) return;
    if (h->n_unsure) h->backend->ops->kv_saved(h->backend);
    for (uint32_t i = 0; i < h->taken; i++) h->backend->ops->host_free(h->backend, h->pieces[i]);
    kv_pool_free(h->slots);
    free(h->pieces);
    free(h->unsure);
    free(h);
    c->host = NULL;
}

void host_pool_stats(const struct kv_cache *c, struct host_pool_stats *out)
{
    const struct host_pool *h = c->host;
    *out = (struct host_pool_stats){0};
    if (!h) return;
    out->blocks = kv_pool_total(h->slots);
    out->blocks_free = kv_pool_free_blocks(h->slots);
    out->bytes = out->blocks * h->stride;
    out->bytes_taken = bytes_taken(h);
}
