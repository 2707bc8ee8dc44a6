/* SPDX-License-Identifier: MIT */
/* A copy of what there is to tell, for one uid. */
#include "daemon/engine/state.h"
#include "daemon/engine/status-snapshot.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_tally(struct status_counts *c, const struct tally *t)
{
    c->requests += t->requests;
    c->tokens_prompt += t->tokens_prompt;
    c->tokens_cached += t->tokens_cached;
    c->tokens_generated += t->tokens_generated;
    if (!c->last_miss) c->last_miss = t->last_miss;
}

/* Sessions of @uid, or with (uid_t)-1 of all, what they take on disk, and the limit of that. */
static uint64_t take_sessions(const struct engine *e, uid_t uid, uint64_t *disk, uint64_t *max)
{
    size_t n = 0;
    uint64_t bytes, unused;
    *disk = 0;
    if (!e->sessions) return 0;
    session_count(e->sessions, uid, &n, &bytes);
    session_disk(e->sessions, uid, disk, max ? max : &unused);
    return n;
}

static int by_uid(const void *a, const void *b)
{
    const struct status_uid *x = a, *y = b;
    return x->uid < y->uid ? -1 : x->uid > y->uid;
}

static int by_nth(const void *a, const void *b)
{
    const struct status_uid *x = a, *y = b;
    return x->nth < y->nth ? -1 : x->nth > y->nth;
}

/* One more sequence that runs, or waits. */
static void add_seq(struct status_snapshot *out, const struct seq *s)
{
    const struct status_uid key = {.uid = s->uid};
    struct status_uid *u = NULL;
    bool running = s->state == SEQ_RUNNING;
    if (s->state == SEQ_ENDED) return;
    if (out->n_uids) u = bsearch(&key, out->uids, out->n_uids, sizeof(key), by_uid);
    if (u) *(running ? &u->counts.running : &u->counts.queued) += 1;
    if (out->all || s->uid == out->uid) *(running ? &out->counts.running : &out->counts.queued) += 1;
}

static int take_uids(struct engine *e, struct status_snapshot *out)
{
    out->uids = calloc(e->n_tallies ? e->n_tallies : 1, sizeof(*out->uids));
    if (!out->uids) return -ENOMEM;
    for (const struct tally *t = e->tallies; t; t = t->next) {
        struct status_uid *u = &out->uids[out->n_uids];
        u->uid = t->uid;
        u->nth = (uint32_t)out->n_uids++;
        add_tally(&u->counts, t);
        u->counts.sessions = take_sessions(e, t->uid, &u->counts.sessions_bytes, NULL);
        if (e->prefix) prefix_count(e->prefix, t->uid, &u->cache);
    }
    qsort(out->uids, out->n_uids, sizeof(*out->uids), by_uid);
    return 0;
}

static void take_counts(struct engine *e, struct status_snapshot *out)
{
    for (const struct tally *t = e->tallies; t; t = t->next)
        if (out->all || t->uid == out->uid) add_tally(&out->counts, t);
    if (out->all) add_tally(&out->counts, &e->forgotten);
    out->counts.sessions = take_sessions(e, out->all ? (uid_t)-1 : out->uid, &out->counts.sessions_bytes, NULL);
    out->own.sessions = take_sessions(e, out->uid, &out->own.bytes, &out->own.bytes_max);
    for (const struct seq *s = e->all.head; s; s = s->next) add_seq(out, s);
}

static void take_model(struct engine *e, struct status_snapshot *out)
{
    out->has_model = true;
    out->kv.blocks_free = e->pool ? kv_pool_free_blocks(e->pool) : 0;
    out->kv.blocks_unused = e->prefix ? prefix_evictable(e->prefix) : 0;
    out->kv.steps = e->steps;
    out->kv.preemptions = e->preemptions;
    out->kv.computed = e->computed;
    rates_sum(&e->rates, engine_now(), &out->rates);
    if (!e->prefix) return;
    out->has_cache = true;
    prefix_count(e->prefix, out->all ? (uid_t)-1 : out->uid, &out->cache);
    out->shed_blocks = e->shed_blocks;
    out->disk = store_count(e, &out->disk_sum);
}

/* With the lock held. */
static void take_notes(const struct engine *e, struct status_snapshot *out)
{
    out->model_changed = e->notes.model;
    if (out->all && e->notes.pending) out->pending = strdup(e->notes.pending);
    if (out->all && e->notes.failed) out->failed = strdup(e->notes.failed);
}

int status_take(struct engine *e, uid_t uid, struct status_snapshot *out)
{
    bool loaded = e->state != ENGINE_LOADING;
    *out = (struct status_snapshot){.engine = e,
                                    .uid = uid,
                                    .all = uid == 0 || uid == geteuid(),
                                    .state = e->state,
                                    .stopping = e->stopping,
                                    .uptime_usec = engine_now() - e->started,
                                    .queue = e->config.queue};
    if (e->state == ENGINE_FAILED && e->why) out->error = strdup(e->why);
    if (loaded) pthread_mutex_lock(&e->lock);
    take_notes(e, out);
    if (loaded) pthread_mutex_unlock(&e->lock);
    if (!loaded) return 0;
    if (out->all && take_uids(e, out) < 0) return -ENOMEM;
    take_counts(e, out);
    if (out->n_uids) qsort(out->uids, out->n_uids, sizeof(*out->uids), by_nth);
    if (e->model.backend) take_model(e, out);
    return 0;
}

void status_snapshot_fini(struct status_snapshot *s)
{
    free(s->error);
    free(s->pending);
    free(s->failed);
    free(s->uids);
    *s = (struct status_snapshot){0};
}
