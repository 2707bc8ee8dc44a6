/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/fetch-blocks.h"
#include "daemon/cache/payload.h"
#include "daemon/sequence/sequence.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <stdlib.h>

#define FETCH_BLOCKS 16 /* read by one job: about 12 MB, a few milliseconds */

struct fetch {
    struct return_job job;
    struct seq *seq;
    void (*done)(struct seq *s);
    struct disk *disk;
    struct backend *backend;
    struct prefix_node *last; /* held */
    uint32_t n, good;
    int r;
    char why[160];
    struct {
        struct prefix_info info;
        uint32_t blocks[KV_GROUPS_MAX]; /* destination, in each group */
        uint32_t tokens;                /* how many of its tokens are of the sequence */
    } part[FETCH_BLOCKS];
};

#define fetch_of(x) ((struct fetch *)((char *)(x)-offsetof(struct fetch, job)))

static void run(struct job *j)
{
    struct fetch *f = fetch_of(return_job_of(j));
    _cleanup_(freep) uint8_t *payload = malloc(payload_bytes(f->backend));
    if (!payload) f->r = -ENOMEM;
    for (; f->r == 0 && f->good < f->n; f->good++) {
        f->r = disk_read(f->disk, &f->part[f->good].info, payload);
        if (f->r < 0) break;
        payload_write(f->backend, f->part[f->good].blocks, payload);
    }
    if (f->r < 0) snprintf(f->why, sizeof(f->why), "%s", error_text(f->r));
}

static void back(struct return_job *x)
{
    struct fetch *f = fetch_of(x);
    f->done(f->seq);
}

/* The positions that a fetch from @at on can reach. */
static uint32_t fetch_end(const struct seq *s, uint32_t at)
{
    uint32_t left = seq_known(s) - at, most = FETCH_BLOCKS * KV_BLOCK;
    return at + (left < most ? left : most);
}

bool seq_fetch(struct kv_cache *c, struct seq *s, void (*done)(struct seq *s))
{
    uint32_t at = s->kv.n_tokens / KV_BLOCK * KV_BLOCK, n;
    struct prefix_node *x = s->reuse.indexed_node;
    if (!spill_disk(c) || s->reuse.off || s->reuse.indexed != at) return false;
    struct fetch *f = NULL;
    if (c->n_groups > 1 && (!reuse_on_disk(c, s, x, at, &n) || seq_cover(c, s, fetch_end(s, at)) < 0)) return false;
    while ((x = reuse_on_disk(c, s, x, at, &n)) && at + n > s->kv.n_tokens) {
        if (!f) f = calloc(1, sizeof(*f));
        if (!f) return false;
        prefix_info(x, &f->part[f->n].info);
        for (uint32_t g = 0; g < c->n_groups; g++) f->part[f->n].blocks[g] = s->kv.tables[g].ids[at / KV_BLOCK];
        f->part[f->n++].tokens = n;
        f->last = x;
        at += n;
        if (n < KV_BLOCK || f->n == FETCH_BLOCKS) break;
    }
    if (!f) return false;
    prefix_ref(c->prefix, f->last);
    f->seq = s;
    f->done = done;
    f->disk = spill_disk(c);
    f->backend = c->backend;
    f->job.job.uncharged = true;
    s->fetch = f;
    s->state = SEQ_FETCHING;
    jobs_send(spill_jobs(c), &f->job, s->uid, run, back);
    return true;
}

static void forget(struct kv_cache *c, struct seq *s)
{
    prefix_unref(c->prefix, s->fetch->last);
    free(s->fetch);
    s->fetch = NULL;
}

bool seq_fetch_recall(struct kv_cache *c, struct seq *s)
{
    if (!jobs_recall(&s->fetch->job)) return false;
    forget(c, s);
    return true;
}

bool seq_fetched(struct kv_cache *c, struct seq *s)
{
    struct fetch *f = s->fetch;
    uint32_t at = s->kv.n_tokens / KV_BLOCK * KV_BLOCK;
    bool more = f->r == 0;
    if (s->state != SEQ_ENDED) { /* otherwise its blocks are released */
        for (uint32_t i = 0; i < f->good; i++) at += f->part[i].tokens;
        if (f->good) s->kv.n_tokens = at;
        /* A preempted sequence has computed these tokens itself. */
        if (s->sched.last_step == 0) s->cached = s->kv.n_tokens;
        reuse_advance(c, s);
    }
    if (f->r < 0 && f->r != -ENOENT) /* files may be removed at any time */
        log_warning("a part of a prompt is computed again because its KV on disk cannot be used: %s", f->why);
    if (f->good < f->n && (f->r == -ENOENT || f->r == -EBADMSG))
        prefix_disk_removed(c->prefix, f->part[f->good].info.id);
    forget(c, s);
    return more;
}
