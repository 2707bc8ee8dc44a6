/* SPDX-License-Identifier: MIT */
#include "daemon/cache/host-slots.h"
#include "daemon/cache/kv/kv-pool.h"
#include "daemon/jobs/returns.h"
#include "daemon/model/backend.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (16ull << 20) /* taken at once, which takes some milliseconds */
#define PIECES      16u           /* that one job takes at most */
#define ALIGN       4096u

/* Takes memory for the next pieces. */
struct grow_job {
    struct return_job job;
    struct host_slots *slots;
    struct backend *backend;
    size_t bytes; /* of a piece */
    uint32_t n;   /* pieces that are wanted, and then, that there are */
    void *got[PIECES];
    int r;
    char why[160]; /* if it is -errno */
};

#define grow_job_of(x) ((struct grow_job *)((char *)(x)-offsetof(struct grow_job, job)))

uint64_t host_slots_stride(uint64_t payload)
{
    return (payload + ALIGN - 1) / ALIGN * ALIGN;
}

/* The backend gave this piece. */
static void add_piece(struct host_slots *h, void *p)
{
    h->pieces[h->taken++] = p;
    kv_pool_limit(h->pool, h->taken * h->each);
}

/* It gives no more. */
static void stop_growing(struct host_slots *h, const char *why)
{
    char size[32];
    log_warning("%s of host memory are used for KV, and no more: %s", format_size(size, host_slots_taken(h)), why);
    h->n_pieces = h->taken;
}

/* One piece at once: where there is none, there will be none later. */
static void begin(struct host_slots *h)
{
    void *p;
    kv_pool_limit(h->pool, 0);
    int r = h->backend->ops->host_alloc(h->backend, h->each * h->stride, &p);
    if (r < 0)
        stop_growing(h, error_text(r));
    else
        add_piece(h, p);
}

int host_slots_new(struct host_slots *h, struct backend *b, struct job_returns *jobs, uint64_t payload, uint64_t slots)
{
    if (slots == 0) return 0;
    if (slots >= KV_NO_BLOCK) slots = KV_NO_BLOCK - 1;
    h->backend = b;
    h->jobs = jobs;
    h->stride = host_slots_stride(payload);
    h->each = h->stride < PIECE_BYTES ? (uint32_t)(PIECE_BYTES / h->stride) : 1;
    if (h->each > slots) h->each = (uint32_t)slots;
    h->n_pieces = (uint32_t)(slots / h->each);
    h->pieces = calloc(h->n_pieces, sizeof(*h->pieces));
    h->unsure = calloc((size_t)h->n_pieces * h->each, sizeof(*h->unsure));
    int r = h->pieces && h->unsure ? kv_pool_new(&h->pool, h->n_pieces * h->each) : -ENOMEM;
    if (r == 0) begin(h);
    return r;
}

void host_slots_free(struct host_slots *h)
{
    for (uint32_t i = 0; i < h->taken; i++) h->backend->ops->host_free(h->backend, h->pieces[i]);
    kv_pool_free(h->pool);
    free(h->pieces);
    free(h->unsure);
    *h = (struct host_slots){0};
}

/* --- growing --- */

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
    struct host_slots *h = x->slots;
    h->growing = false;
    for (uint32_t i = 0; i < x->n; i++) add_piece(h, x->got[i]);
    if (x->r < 0) stop_growing(h, x->why);
    free(x);
}

void host_slots_grow(struct host_slots *h, uint32_t ahead)
{
    const uint32_t left = h->n_pieces - h->taken;
    if (h->growing || !left) return;
    const uint32_t have = kv_pool_free_blocks(h->pool);
    struct grow_job *x = have < ahead ? calloc(1, sizeof(*x)) : NULL;
    if (!x) return;
    const uint32_t want = (ahead - have) / h->each + 1;
    x->slots = h;
    x->backend = h->backend;
    x->bytes = h->each * h->stride;
    x->n = want < PIECES ? want : PIECES;
    if (x->n > left) x->n = left;
    x->job.job.uncharged = true;
    h->growing = true;
    jobs_send(h->jobs, &x->job, (uid_t)-1, run, grown);
}

/* --- slots --- */

uint8_t *host_slots_at(const struct host_slots *h, uint32_t slot)
{
    return h->pieces[slot / h->each] + slot % h->each * h->stride;
}

void host_slots_mark(struct host_slots *h, uint32_t slot)
{
    h->n_unsure += !h->unsure[slot];
    h->unsure[slot] = true;
}

void host_slots_settle(struct host_slots *h)
{
    if (h->n_unsure) memset(h->unsure, false, kv_pool_total(h->pool) * sizeof(*h->unsure));
    h->n_unsure = 0;
}

uint64_t host_slots_all(const struct host_slots *h)
{
    return (uint64_t)h->n_pieces * h->each;
}

uint64_t host_slots_left(const struct host_slots *h)
{
    return h->pool ? host_slots_all(h) - kv_pool_total(h->pool) + kv_pool_free_blocks(h->pool) : 0;
}

uint64_t host_slots_taken(const struct host_slots *h)
{
    return (uint64_t)h->taken * h->each * h->stride;
}
