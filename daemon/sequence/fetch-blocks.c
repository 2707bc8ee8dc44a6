/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/fetch-blocks.h"
#include "daemon/cache/payload.h"
#include "daemon/sequence/sequence.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <stdlib.h>

#define FETCH_BLOCKS 64 /* that one job copies from host memory or reads from disk, but of the latter */
#define FETCH_FILES  16 /* so many at most: about 12 MB, a few milliseconds */

struct fetch {
    struct return_job job;
    struct seq *seq;
    void (*done)(struct seq *s);
    struct disk *disk;
    const struct host_pool *host;
    struct backend *backend;
    struct prefix_node *last; /* held */
    bool state;               /* only the recurrent state of the first part comes, from its slot or from disk */
    bool spoilt;              /* what it reads is not used */
    bool wait;                /* for copies of evicted blocks, where it writes and perhaps what it reads */
    uint32_t n, good;
    uint32_t files; /* of the parts, those of which something is read from disk */
    int r;
    char why[160];
    struct fetch_part {
        struct prefix_info info;
        uint32_t blocks[KV_GROUPS_MAX];      /* destination of what the disk has, in each group */
        uint32_t host_blocks[KV_GROUPS_MAX]; /* of what the slot has */
        bool file, slot, state_slot;         /* something comes from there; the fetch has a reference on the slot */
        uint32_t tokens;                     /* how many of its tokens are of the sequence */
    } part[FETCH_BLOCKS];
};

#define fetch_of(x) ((struct fetch *)((char *)(x)-offsetof(struct fetch, job)))

static void read_state(struct fetch *f)
{
    struct backend *b = f->backend;
    const struct fetch_part *x = &f->part[0];
    const uint32_t group = b->hparams.n_groups - 1;
    _cleanup_(freep) uint8_t *payload = x->state_slot ? NULL : malloc(b->hparams.groups[group].state_bytes);
    if (!x->state_slot && !payload) f->r = -ENOMEM;
    if (f->r == 0 && f->wait) f->r = b->ops->kv_saved(b);
    if (f->r == 0 && payload) f->r = disk_read(f->disk, &x->info, payload);
    if (f->r < 0) return;
    b->ops->kv_write(b, group, x->blocks[group], payload ? payload : host_pool_state(f->host, x->info.state_slot));
    f->good = 1;
}

static void copy_slot(const struct fetch *f, const struct fetch_part *x)
{
    struct backend *b = f->backend;
    for (uint32_t g = 0; g < hparams_kv_groups(&b->hparams); g++)
        if (x->host_blocks[g] != KV_NO_BLOCK)
            b->ops->kv_write(b, g, x->host_blocks[g], host_pool_at(f->host, x->info.slot, g));
}

static void read_blocks(struct fetch *f)
{
    _cleanup_(freep) uint8_t *payload = malloc(payload_bytes(f->backend, 0) + 1); /* there may be none */
    if (!payload) f->r = -ENOMEM;
    if (f->r == 0 && f->wait) f->r = f->backend->ops->kv_saved(f->backend);
    for (; f->r == 0 && f->good < f->n; f->good++) {
        const struct fetch_part *x = &f->part[f->good];
        if (x->slot) copy_slot(f, x);
        if (!x->file) continue;
        f->r = disk_read(f->disk, &x->info, payload);
        if (f->r < 0) break;
        payload_write(f->backend, x->blocks, x->info.lacks, payload);
    }
}

static void run(struct job *j)
{
    struct fetch *f = fetch_of(return_job_of(j));
    if (f->state)
        read_state(f);
    else
        read_blocks(f);
    if (f->r < 0) snprintf(f->why, sizeof(f->why), "%s", error_text(f->r));
}

static void back(struct return_job *x)
{
    struct fetch *f = fetch_of(x);
    f->done(f->seq);
}

/* Add a part with the node's data, from which nothing comes yet. */
static struct fetch_part *add_part(struct fetch *f, const struct prefix_info *info)
{
    struct fetch_part *x = &f->part[f->n++];
    *x = (struct fetch_part){.info = *info};
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++) x->blocks[g] = x->host_blocks[g] = KV_NO_BLOCK;
    return x;
}

/* The block of @group comes from the node's slot, or from its file, and will be @to. False: neither has it. */
static bool take_from(struct kv_cache *c, struct fetch *f, struct fetch_part *x, uint32_t group, uint32_t to)
{
    if (!(x->info.slot_lacks >> group & 1)) {
        if (!x->slot) kv_pool_ref(host_pool_slots(c->host), x->info.slot);
        x->slot = true;
        x->host_blocks[group] = to;
        return true;
    }
    if (!x->info.on_disk || x->info.lacks >> group & 1) return false;
    f->files += !x->file;
    x->file = true;
    x->blocks[group] = to;
    return true;
}

/* There is room for another part, whatever it is. */
static bool has_room(const struct fetch *f)
{
    return f->n < FETCH_BLOCKS && f->files < FETCH_FILES;
}

/* Free a fetch that no job has. */
static void fetch_free(struct kv_cache *c, struct fetch *f)
{
    for (uint32_t i = 0; f && i < f->n; i++) {
        const struct fetch_part *x = &f->part[i];
        if (x->slot) kv_pool_unref(host_pool_slots(c->host), x->info.slot);
        if (x->state_slot) kv_pool_unref(host_pool_state_slots(c->host), x->info.state_slot);
    }
    free(f);
}

static void start(struct kv_cache *c, struct seq *s, struct fetch *f, void (*done)(struct seq *s))
{
    prefix_ref(c->prefix, f->last);
    f->seq = s;
    f->done = done;
    f->disk = f->state ? spill_states(c) : spill_disk(c);
    f->host = c->host;
    f->wait = host_pool_busy(c);
    f->backend = c->backend;
    f->job.job.uncharged = true;
    s->fetch = f;
    s->state = SEQ_FETCHING;
    jobs_send(spill_jobs(c), &f->job, s->uid, run, back);
}

/* --- several groups --- */

/* A block that is needed and not in memory is read into the table's own; others come from memory. False: it can be read
 * no longer. @x: what is to be read. */
static bool want(struct kv_cache *c, struct seq *s, struct fetch *f, struct fetch_part *x, uint32_t n)
{
    const uint32_t at = s->reuse.far.fetched, target = s->reuse.far.target;
    for (uint32_t g = 0; g < c->n_groups; g++) {
        uint32_t *mine = &s->kv.tables[g].ids[at / KV_BLOCK], its = x->info.blocks[g];
        if (at + KV_BLOCK <= kv_group_first(&c->backend->hparams.groups[g], target)) continue;
        if (its == KV_NO_BLOCK) {
            if (!take_from(c, f, x, g, *mine)) return false;
        } else if (n < KV_BLOCK) {
            c->backend->ops->kv_copy(c->backend, g, *mine, its, n);
        } else if (*mine != its) {
            kv_pool_ref(c->pools[g], its);
            kv_pool_unref(c->pools[g], *mine);
            *mine = its;
        }
    }
    return true;
}

/* Take over the next node on the way to the target, or let the job read it. False: it was removed. */
static bool advance(struct kv_cache *c, struct seq *s, struct fetch *f)
{
    struct reuse_far *far = &s->reuse.far;
    struct items rest = items_from(seq_cache_items(s), far->fetched);
    struct prefix_info info;
    uint32_t n;
    rest.n = far->target - far->fetched;
    struct prefix_node *x = prefix_child(c->prefix, &s->reuse.namespace, far->node, rest, &n);
    if (!x || (n < KV_BLOCK && n < rest.n)) return false;
    prefix_info(x, &info);
    struct fetch_part *part = add_part(f, &info);
    part->tokens = n;
    if (!want(c, s, f, part, n)) return false;
    prefix_ref(c->prefix, x);
    if (far->node) prefix_unref(c->prefix, far->node);
    far->node = f->last = x;
    far->fetched += n;
    f->n -= !part->slot && !part->file; /* nothing is to be read */
    return true;
}

/* Let the tables of the groups with a window cover what a token at the target sees, and what follows. */
static int cover_target(struct kv_cache *c, struct seq *s)
{
    int r = 0;
    for (uint32_t g = 1; r == 0 && g < c->n_groups; g++) {
        const struct kv_group *group = &c->backend->hparams.groups[g];
        struct kv_table *t = &s->kv.tables[g];
        const uint32_t first = kv_group_first(group, s->reuse.far.target) / KV_BLOCK;
        const uint32_t all = kv_table_blocks(seq_positions(s)), most = first + seq_group_blocks(s, group);
        const uint32_t end = most < all ? most : all;
        r = kv_table_skip(t, c->pools[g], first);
        if (r == 0 && end > t->n_blocks && !kv_cache_make_room(c, g, end - t->n_blocks)) r = -ENOBUFS;
        if (r == 0) r = kv_table_reserve(t, c->pools[g], end * KV_BLOCK);
    }
    return r;
}

/* All up to the target has arrived. */
static void arrive(struct kv_cache *c, struct seq *s)
{
    s->kv.n_tokens = s->reuse.far.target;
    if (s->sched.last_step == 0) s->cached = s->kv.n_tokens; /* else it has computed these tokens itself */
    reuse_advance(c, s);
    reuse_end_far(c, s);
}

/* The way to the target is lost: what @s had before is found again. */
static void turn_back(struct kv_cache *c, struct seq *s)
{
    s->reuse.far.failed = true;
    if (reuse_again(c, s) == 0 && s->sched.last_step == 0) s->cached = s->kv.n_tokens;
}

static bool fetch_far(struct kv_cache *c, struct seq *s, void (*done)(struct seq *s))
{
    struct reuse_far *far = &s->reuse.far;
    if (!far->target && !reuse_aim(c, s)) return false;
    struct fetch *f = calloc(1, sizeof(*f));
    bool good = f && (far->fetched > s->reuse.indexed || cover_target(c, s) == 0);
    while (good && far->fetched < far->target && has_room(f)) good = advance(c, s, f);
    if (good && f->n) {
        start(c, s, f, done);
        return true;
    }
    fetch_free(c, f);
    good ? arrive(c, s) : turn_back(c, s);
    return false;
}

/* All KV up to the state is in memory: the state follows. */
static bool fetch_state(struct kv_cache *c, struct seq *s, void (*done)(struct seq *s))
{
    struct prefix_node *x = s->reuse.indexed_node;
    if (live_state_ready(c, s) || !x || s->reuse.indexed != s->reuse.until) return false;
    const bool slot = prefix_state_slot(x) != KV_NO_BLOCK;
    struct fetch *f = slot || (spill_states(c) && prefix_state_on_disk(x)) ? calloc(1, sizeof(*f)) : NULL;
    if (!f) return false;
    struct prefix_info info;
    prefix_info(x, &info);
    struct fetch_part *part = add_part(f, &info);
    part->blocks[c->state] = s->kv.tables[c->state].ids[0];
    part->state_slot = slot;
    if (slot) kv_pool_ref(host_pool_state_slots(c->host), info.state_slot);
    f->state = true;
    f->last = x;
    start(c, s, f, done);
    return true;
}

bool seq_fetch(struct kv_cache *c, struct seq *s, void (*done)(struct seq *s))
{
    uint32_t at = s->kv.n_tokens / KV_BLOCK * KV_BLOCK, n;
    struct prefix_node *x = s->reuse.indexed_node;
    if ((!spill_disk(c) && !c->host) || s->reuse.off || s->reuse.indexed != at) return false;
    struct fetch *f = NULL;
    if (c->n_groups > 1) return fetch_far(c, s, done);
    while ((x = reuse_below(c, s, x, at, &n)) && at + n > s->kv.n_tokens) {
        struct prefix_info info;
        if (!f) f = calloc(1, sizeof(*f));
        if (!f) return false;
        prefix_info(x, &info);
        struct fetch_part *part = add_part(f, &info);
        part->tokens = n;
        take_from(c, f, part, 0, s->kv.tables[0].ids[at / KV_BLOCK]);
        f->last = x;
        at += n;
        if (n < KV_BLOCK || !has_room(f)) break;
    }
    if (!f) return fetch_state(c, s, done);
    start(c, s, f, done);
    return true;
}

static void forget(struct kv_cache *c, struct seq *s)
{
    prefix_unref(c->prefix, s->fetch->last);
    fetch_free(c, s->fetch);
    s->fetch = NULL;
}

void seq_fetch_spoil(struct seq *s)
{
    s->fetch->spoilt = true;
}

bool seq_fetch_recall(struct kv_cache *c, struct seq *s)
{
    if (!jobs_recall(&s->fetch->job)) return false;
    forget(c, s);
    return true;
}

/* The live state is at hand, unless the file was damaged. */
static void state_fetched(struct kv_cache *c, struct seq *s)
{
    struct fetch *f = s->fetch;
    if (f->r == 0 && s->state != SEQ_ENDED) s->live.at = s->kv.n_tokens;
    if (f->r == -ENOENT || f->r == -EBADMSG) prefix_state_removed(c->prefix, f->part[0].info.id);
    if (f->r < 0 && f->r != -ENOENT)
        log_warning("a part of a prompt is computed again because its state cannot be used: %s", f->why);
}

bool seq_fetched(struct kv_cache *c, struct seq *s)
{
    struct fetch *f = s->fetch;
    if (f->spoilt) {
        forget(c, s);
        if (s->state != SEQ_ENDED) reuse_drop(c, s);
        return false;
    }
    if (f->state) {
        state_fetched(c, s);
        forget(c, s);
        return false;
    }
    uint32_t at = s->kv.n_tokens / KV_BLOCK * KV_BLOCK;
    bool more = f->r == 0;
    if (s->state != SEQ_ENDED && !s->reuse.far.target) { /* otherwise its blocks are released, or it is not there yet */
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
    if (!more && s->state != SEQ_ENDED && s->reuse.far.target) turn_back(c, s);
    return more;
}
