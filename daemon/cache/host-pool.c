/* SPDX-License-Identifier: MIT */
#include "daemon/cache/host-pool.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/payload.h"
#include "daemon/cache/prefix/prefix-host.h"
#include "daemon/jobs/returns.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (16ull << 20) /* taken at once, which takes some milliseconds */
#define PIECES      16u           /* that one job takes at most */
#define ALIGN       4096u
#define NEAR        4u /* memory is taken when less than one of so many blocks of the device is free, and then */
#define AHEAD       8u /* for one of so many blocks more than there are in slots */

struct host_pool {
    struct backend *backend;
    struct job_returns *jobs;
    struct kv_pool *slots;          /* those that have memory */
    uint8_t **pieces;               /* [n_pieces] of the slots 0, 1, …; the first @taken have memory */
    uint64_t stride;                /* bytes of a slot */
    uint32_t each, n_pieces, taken; /* each: slots of a piece */
    bool growing;                   /* a job takes memory */
    bool *unsure;                   /* [slots] copies to it may be under way, */
    uint32_t n_unsure;              /* to so many slots */
};

/* Takes memory for the next pieces. */
struct grow_job {
    struct return_job job;
    struct kv_cache *cache;
    struct backend *backend;
    size_t bytes; /* of a piece */
    uint32_t n;   /* pieces that are wanted, and then, that there are */
    void *got[PIECES];
    int r;
    char why[160]; /* if it is -errno */
};

#define grow_job_of(x) ((struct grow_job *)((char *)(x)-offsetof(struct grow_job, job)))

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

/* --- memory --- */

/* The backend gave this piece. */
static void add_piece(struct host_pool *h, void *p)
{
    h->pieces[h->taken++] = p;
    kv_pool_limit(h->slots, h->taken * h->each);
}

/* It gives no more. */
static void stop_growing(struct host_pool *h, const char *why)
{
    char size[32];
    log_warning("%s of host memory are used for KV, and no more: %s", format_size(size, bytes_taken(h)), why);
    h->n_pieces = h->taken;
}

static void run(struct job *j)
{
    struct grow_job *x = grow_job_of(return_job_of(j));
    uint32_t n = 0;
    while (n < x->n && (x->r = x->backend->ops->host_alloc(x->backend, x->bytes, &x->got[n])) == 0) n++;
    x->n = n;
    if (x->r < 0) snprintf(x->why, sizeof(x->why), "%s", error_text(x->r));
}

static void grown(struct return_job *j)
{
    struct grow_job *x = grow_job_of(j);
    struct host_pool *h = x->cache->host;
    h->growing = false;
    for (uint32_t i = 0; i < x->n; i++) add_piece(h, x->got[i]);
    if (x->r < 0) stop_growing(h, x->why);
    free(x);
}

/* Few blocks of the device are free in some group. */
static bool nearly_full(const struct kv_cache *c)
{
    for (uint32_t g = 0; g < c->n_groups; g++)
        if (kv_pool_free_blocks(c->pools[g]) <= kv_pool_total(c->pools[g]) / NEAR) return true;
    return false;
}

/* Before there is need. */
static void grow(struct kv_cache *c)
{
    struct host_pool *h = c->host;
    const uint32_t ahead = kv_pool_total(c->pools[0]) / AHEAD + h->each;
    const uint32_t have = kv_pool_free_blocks(h->slots), left = h->n_pieces - h->taken;
    if (h->growing || !left || c->stopping || have >= ahead || !nearly_full(c)) return;
    struct grow_job *x = calloc(1, sizeof(*x));
    if (!x) return;
    const uint32_t want = (ahead - have) / h->each + 1;
    x->cache = c;
    x->backend = h->backend;
    x->bytes = h->each * h->stride;
    x->n = want < PIECES ? want : PIECES;
    if (x->n > left) x->n = left;
    x->job.job.uncharged = true;
    h->growing = true;
    jobs_send(h->jobs, &x->job, (uid_t)-1, run, grown);
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

void host_pool_turn(struct kv_cache *c, bool stepped)
{
    if (!c->host) return;
    if (stepped) host_pool_settle(c);
    grow(c);
}

/* --- begin and end --- */

/* One piece at once: where there is none, there will be none later. */
static void begin(struct kv_cache *c)
{
    struct host_pool *h = c->host;
    void *p;
    kv_pool_limit(h->slots, 0);
    int r = h->backend->ops->host_alloc(h->backend, h->each * h->stride, &p);
    if (r < 0)
        stop_growing(h, error_text(r));
    else
        add_piece(h, p);
    prefix_add_host(c->prefix, h->slots, copy, spill_evicting, c);
}

int host_pool_new(struct kv_cache *c, uint64_t bytes, struct job_returns *jobs)
{
    const uint64_t payload = payload_bytes(c->backend, 0), stride = (payload + ALIGN - 1) / ALIGN * ALIGN;
    uint64_t slots = payload ? bytes / stride : 0;
    if (slots == 0 || c->state || !c->backend->ops->host_alloc) return 0;
    if (slots >= KV_NO_BLOCK) slots = KV_NO_BLOCK - 1;
    struct host_pool *h = c->host = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    h->backend = c->backend;
    h->jobs = jobs;
    h->stride = stride;
    h->each = stride < PIECE_BYTES ? (uint32_t)(PIECE_BYTES / stride) : 1;
    if (h->each > slots) h->each = (uint32_t)slots;
    h->n_pieces = (uint32_t)(slots / h->each);
    h->pieces = calloc(h->n_pieces, sizeof(*h->pieces));
    h->unsure = calloc((size_t)h->n_pieces * h->each, sizeof(*h->unsure));
    int r = h->pieces && h->unsure ? kv_pool_new(&h->slots, h->n_pieces * h->each) : -ENOMEM;
    if (r == 0) begin(c);
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
    out->blocks = (uint64_t)h->n_pieces * h->each;
    out->blocks_free = out->blocks - kv_pool_total(h->slots) + kv_pool_free_blocks(h->slots);
    out->bytes = out->blocks * h->stride;
    out->bytes_taken = bytes_taken(h);
}
