/* SPDX-License-Identifier: MIT */
/* A copy of what there is to tell, for one uid. */
#include "daemon/engine/status-snapshot.h"
#include "daemon/engine/state.h"
#include "daemon/request/constraint.h"
#include "daemon/request/request.h"
#include "daemon/request/texts.h"
#include "daemon/session/list.h"
#include "daemon/session/session.h"
#include "libcommon/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sessions of @uid, or with (uid_t)-1 of all, what they take on disk, and the limit of that. */
static uint64_t take_sessions(const struct core *core, uid_t uid, uint64_t *disk, uint64_t *max)
{
    size_t n = 0;
    uint64_t bytes, unused;
    *disk = 0;
    if (!core->sessions) return 0;
    session_count(core->sessions, uid, &n, &bytes);
    session_disk(core->sessions, uid, disk, max ? max : &unused);
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

/* One more answer that runs, or waits. */
static void add_answer(struct status_snapshot *out, uid_t uid, bool running)
{
    const struct status_uid key = {.uid = uid};
    struct status_uid *u = NULL;
    if (out->n_uids) u = bsearch(&key, out->uids, out->n_uids, sizeof(key), by_uid);
    if (u) *(running ? &u->counts.running : &u->counts.queued) += 1;
    if (out->all || uid == out->uid) *(running ? &out->counts.running : &out->counts.queued) += 1;
}

static void add_request(struct status_snapshot *out, const struct request *r)
{
    if (r->state == REQUEST_ENDED) return;
    if (r->answers.n == 0) add_answer(out, r->uid, r->texts && r->texts->begun);
    for (uint32_t i = 0; i < r->answers.n; i++) {
        const struct seq *s = r->answers.seqs[i];
        if (s && s->state != SEQ_ENDED) add_answer(out, r->uid, s->state == SEQ_RUNNING || s->state == SEQ_ENCODING);
    }
}

/* Copy the users' counts. The list is guarded by the mailbox's lock, which is held only for this. */
static int take_users(struct engine *e, struct status_snapshot *out)
{
    struct mailbox *m = &e->core.mail;
    const struct users *users = &m->users;
    pthread_mutex_lock(&m->lock);
    if (out->all) out->uids = calloc(users->n ? users->n : 1, sizeof(*out->uids));
    for (const struct user *x = users->list; x; x = x->next) {
        if (out->all || x->uid == out->uid) user_counts_add(&out->counts.sums, &x->counts);
        if (!out->uids) continue;
        struct status_uid *u = &out->uids[out->n_uids];
        u->uid = x->uid;
        u->nth = (uint32_t)out->n_uids++;
        user_counts_add(&u->counts.sums, &x->counts);
    }
    if (out->all) user_counts_add(&out->counts.sums, &users->forgotten);
    pthread_mutex_unlock(&m->lock);
    return out->all && !out->uids ? -ENOMEM : 0;
}

static void take_counts(struct engine *e, struct status_snapshot *out)
{
    const struct core *core = &e->core;
    for (size_t i = 0; i < out->n_uids; i++) {
        struct status_uid *u = &out->uids[i];
        u->counts.sessions = take_sessions(core, u->uid, &u->counts.sessions_bytes, NULL);
        if (core->cache.prefix) prefix_stats_get(core->cache.prefix, u->uid, &u->cache);
    }
    out->counts.sessions = take_sessions(core, out->all ? (uid_t)-1 : out->uid, &out->counts.sessions_bytes, NULL);
    out->own.sessions = take_sessions(core, out->uid, &out->own.bytes, &out->own.bytes_max);
    struct constraints_stats c = {0};
    if (core->model.constraints) constraints_stats(core->model.constraints, out->uid, &c);
    out->own.constraints = c.n;
    out->own.constraints_bytes = c.bytes;
    out->own.speculation_bytes = pasts_bytes(&core->drafter.pasts, out->uid);
    if (out->n_uids) qsort(out->uids, out->n_uids, sizeof(*out->uids), by_uid);
    for (const struct request *r = core->requests.head; r; r = r->next) add_request(out, r);
    if (out->n_uids) qsort(out->uids, out->n_uids, sizeof(*out->uids), by_nth);
}

static void take_model(struct engine *e, struct status_snapshot *out)
{
    const struct core *core = &e->core;
    const struct kv_cache *c = &core->cache;
    out->has_model = true;
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++)
        out->kv.blocks_free[g] = c->pools[g] ? kv_pool_free_blocks(c->pools[g]) : 0;
    out->kv.blocks_unused = c->prefix ? prefix_evictable(c->prefix) : 0;
    out->kv.states_free = c->state && c->pools[c->state] ? kv_pool_free_blocks(c->pools[c->state]) : 0;
    out->kv.steps = core->counts.steps;
    out->kv.preemptions = core->counts.preemptions;
    out->kv.computed = core->counts.computed;
    rates_sum(&core->rates, clock_now_usec(), &out->rates);
    if (core->drafter.model) model_draft_stats(core, &out->kv.draft);
    const struct energy *x = &core->energy;
    out->energy.known = energy_known(x);
    out->energy.idle_watts = x->idle_watts;
    out->energy.prompt_token = x->prompt_token;
    out->energy.answer_token = x->answer_token;
    out->has_media = media_room_stats(core, &out->media);
    vector_cache_stats(&core->vectors, out->all ? (uid_t)-1 : out->uid, &out->kv.vectors);
    if (!c->prefix) return;
    out->has_cache = true;
    prefix_stats_get(c->prefix, out->all ? (uid_t)-1 : out->uid, &out->cache);
    out->kv.shed_blocks = e->pressure.freed;
    host_pool_stats(c, &out->tiers.host);
    out->disk = spill_count(c, &out->tiers.disk);
    struct disk_stats states;
    spill_count_states(c, &states);
    out->tiers.disk.written += states.written;
    out->tiers.disk.read += states.read;
    out->tiers.disk.damaged += states.damaged;
}

/* With the lock held. */
static void take_notes(const struct engine *e, struct status_snapshot *out)
{
    out->model_changed = e->watcher.note;
    if (out->all && e->reload.pending) out->pending = strdup(e->reload.pending);
    if (out->all && e->reload.failed) out->failed = strdup(e->reload.failed);
}

int status_take(struct engine *e, uid_t uid, struct status_snapshot *out)
{
    bool loaded = e->core.mail.state != ENGINE_LOADING;
    *out = (struct status_snapshot){.engine = e,
                                    .uid = uid,
                                    .all = uid == 0 || uid == geteuid(),
                                    .state = e->core.mail.state,
                                    .stopping = e->core.stopping,
                                    .uptime_usec = clock_now_usec() - e->started,
                                    .queue = e->core.config.queue};
    if (e->core.mail.state == ENGINE_FAILED && e->core.mail.error) out->error = strdup(e->core.mail.error);
    if (loaded) pthread_mutex_lock(&e->core.mail.lock);
    take_notes(e, out);
    if (loaded) pthread_mutex_unlock(&e->core.mail.lock);
    if (!loaded) return 0;
    if (take_users(e, out) < 0) return -ENOMEM;
    take_counts(e, out);
    if (e->core.model.backend) take_model(e, out);
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
