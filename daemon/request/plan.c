/* SPDX-License-Identifier: MIT */
#include "daemon/request/plan.h"
#include "daemon/request/plan-blocks.h"
#include "daemon/request/request.h"
#include "daemon/request/texts.h"
#include "libcommon/clock.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define LOOKS      8  /* waiting sequences that are looked up in the cache again at one decision */
#define LOOKS_NEW  8  /* those of one user that are looked up for the first time; at least LOOKS (mark_due) */
#define LOOK_STEPS 32 /* steps until a sequence is looked up again */

void plan_init(struct plan *p, uint32_t parallel, uint32_t batch_tokens)
{
    *p = (struct plan){0};
    sched_config_init(&p->config, parallel, batch_tokens);
    sched_time_init(&p->book.time);
}

void plan_fini(struct plan *p)
{
    free(p->seqs);
    free(p->reqs);
    free(p->stale);
    free(p->users);
    free(p->accounts);
    free(p->runs);
    free(p->actions);
    free(p->places);
    free(p->scratch);
    *p = (struct plan){0};
}

static bool grow(void **a, uint32_t cap, size_t size)
{
    void *p = reallocarray(*a, cap, size);
    if (p) *a = p;
    return p;
}

int plan_reserve(struct plan *p, uint32_t n)
{
    uint32_t cap = p->cap ? p->cap : 64;
    if (p->cap - p->n >= n) return 0;
    while (cap - p->n < n) cap *= 2;
    /* There are no more users than sequences. */
    if (!grow((void **)&p->seqs, cap, sizeof(*p->seqs)) || !grow((void **)&p->reqs, cap, sizeof(*p->reqs)) ||
        !grow((void **)&p->stale, cap, sizeof(*p->stale)) || !grow((void **)&p->users, cap, sizeof(*p->users)) ||
        !grow((void **)&p->accounts, cap, sizeof(*p->accounts)) || !grow((void **)&p->runs, cap, sizeof(*p->runs)) ||
        !grow((void **)&p->actions, cap, sizeof(*p->actions)) || !grow((void **)&p->places, cap, sizeof(*p->places)) ||
        !grow(&p->scratch, 1, sched_scratch_size(cap, cap)))
        return -ENOMEM;
    p->cap = cap;
    return 0;
}

/* --- entries --- */

static bool never_ran(const struct seq *s)
{
    return s->state == SEQ_WAITING && !s->times.admitted && !s->request->control.internal &&
           (!s->request->texts || texts_queues(s));
}

static void count(struct plan *p, struct seq *s, bool queued, bool ready)
{
    p->n_queued = p->n_queued - s->sched.queued + queued;
    p->n_ready = p->n_ready - s->sched.ready + ready;
    s->sched.queued = queued;
    s->sched.ready = ready;
}

void plan_update(struct core *core, struct seq *s)
{
    if (!s->sched.planned) return;
    core->plan.stale[s->sched.index] = true;
    count(&core->plan, s, never_ran(s), s->state == SEQ_RUNNING && !s->request->control.paused && !s->held);
}

static void enter(struct plan *p, struct seq *s)
{
    struct user *u = s->request->user;
    assert(p->n < p->cap);
    s->sched.planned = true;
    s->sched.index = p->n++;
    p->seqs[s->sched.index] = s;
    if (u->planned++ == 0 && u->left_view != p->views) u->account.waited = false; /* it had no sequence meanwhile */
}

void plan_wait(struct core *core, struct seq *s)
{
    s->sched.since = core->plan.book.clock;
    s->sched.looked_step = 0;
    core->plan.look_step = 0;
    if (s->generated) s->sched.with = NULL;
    if (!s->sched.planned) enter(&core->plan, s);
    plan_update(core, s);
}

void plan_leave(struct core *core, struct seq *s)
{
    struct plan *p = &core->plan;
    struct user *u = s->request->user;
    plan_count_held(core, s);
    if (!s->sched.planned) return;
    count(p, s, false, false);
    p->n_sharing -= s->sched.shares;
    s->sched.shares = s->sched.planned = false;
    p->seqs[s->sched.index] = NULL;
    p->n_left++;
    if (--u->planned == 0) u->left_view = p->views;
}

/* Remove the entries of sequences that left. */
static void close_gaps(struct plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        struct seq *s = p->seqs[i];
        if (!s) continue;
        p->seqs[n] = s;
        p->reqs[n] = p->reqs[i];
        p->stale[n] = p->stale[i];
        s->sched.index = n++;
    }
    p->n = n;
    p->n_left = 0;
    p->n_viewed = p->n_users = 0; /* the order of the users may have changed */
}

/* --- users --- */

/* The index of the user of @s. */
static uint32_t user_of(struct plan *p, const struct seq *s)
{
    struct user *u = s->request->user;
    if (u->index < p->n_users && p->users[u->index] == u) return u->index;
    u->index = p->n_users++;
    p->users[u->index] = u;
    p->accounts[u->index] = u->account;
    return u->index;
}

void plan_charge(struct core *core, struct user *u, uint64_t units)
{
    struct plan *p = &core->plan;
    if (u->index < p->n_users && p->users[u->index] == u) p->accounts[u->index].served += units;
    u->account.served += units;
    p->book.clock += units;
}

void plan_keep_accounts(struct core *core)
{
    struct plan *p = &core->plan;
    for (uint32_t i = 0; i < p->n_users; i++) p->users[i]->account = p->accounts[i];
}

/* --- the view --- */

static enum sched_class class_of(const struct request *r)
{
    if (r->control.internal) return SCHED_CLASS_BATCH;
    switch (r->proto.gen.priority) {
    case PROTO_PRIORITY_INFILL:
        return SCHED_CLASS_INFILL;
    case PROTO_PRIORITY_BATCH:
        return SCHED_CLASS_BATCH;
    case PROTO_PRIORITY_UNSET:
        return r->proto.type == PROTO_INFILL ? SCHED_CLASS_INFILL : SCHED_CLASS_INTERACTIVE;
    default:
        return SCHED_CLASS_INTERACTIVE;
    }
}

/* The step from which on @s may be looked up in the cache again. */
static uint64_t look_step(const struct seq *s)
{
    return s->sched.looked_step ? s->sched.looked_step + LOOK_STEPS : 0;
}

/* Waiting sequences that may be looked up become stale. */
static void mark_due(struct core *core)
{
    struct plan *p = &core->plan;
    uint64_t now = core->counts.steps, next = now + 1 + LOOK_STEPS;
    uint32_t due = 0;
    if (now < p->look_step) return;
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->seqs[i]->state != SEQ_WAITING) continue;
        uint64_t at = look_step(p->seqs[i]);
        if (at <= now) {
            p->stale[i] = true;
            due++;
        } else if (at < next) {
            next = at;
        }
    }
    p->look_step = due > LOOKS ? now : next; /* the rest is due at the next view */
}

/* May @s be looked up in the cache? The first time is limited for each user: a sequence of which nothing is known
 * counts as a long prompt, so it may not wait behind those of others. */
static bool may_look(struct core *core, const struct seq *s, uint32_t *looks)
{
    struct user *u = s->request->user;
    if (look_step(s) > core->counts.steps) return false;
    if (s->sched.looked_step) return *looks && (*looks)--;
    if (u->looks_view != core->plan.views) {
        u->looks_view = core->plan.views;
        u->looks = 0;
    }
    return u->looks++ < LOOKS_NEW;
}

/* Cached tokens of a waiting sequence: looked up when it arrives and now and then, plus what the sequence that it waits
 * for has computed since. */
static uint32_t found(struct core *core, struct seq *s, uint32_t *looks)
{
    struct seq_schedule *x = &s->sched;
    if (may_look(core, s, looks)) {
        x->found = reuse_known(&core->cache, s);
        x->looked_step = core->counts.steps + 1;
    }
    if (x->with && x->with->reuse.indexed > x->found)
        x->found = x->with->reuse.indexed < x->with_n ? x->with->reuse.indexed : x->with_n;
    uint32_t last = seq_known(s) - 1;
    return x->found < last ? x->found : last;
}

/* The items of an entry are tokens, or embeddings of one run, and all with the adapter or none: a part of the batch
 * ends where that changes. 0: nowhere. Proposed tokens follow the last known item only if that is a sampled token. */
static void show_stretch(const struct core *core, const struct seq *s, struct sched_req *r)
{
    if (texts_whole(s)) {
        r->stretch = seq_known(s) - s->kv.n_tokens;
        r->whole = true;
        return;
    }
    const struct items left = items_from(seq_items(s), s->kv.n_tokens);
    const uint32_t adapted = seq_adapted_from(s);
    r->stretch = left.n_runs ? items_stretch(&left) : 0;
    if (adapted > s->kv.n_tokens && adapted - s->kv.n_tokens < left.n &&
        (!r->stretch || adapted - s->kv.n_tokens < r->stretch))
        r->stretch = adapted - s->kv.n_tokens;
    r->whole = r->stretch && left.ids[0] == ITEM_EMBD &&
               hparams_whole(&core->model.backend->hparams, items_run_at(&left, 0)->kind);
}

static void show(struct core *core, struct seq *s, struct sched_req *r, uint64_t now, uint32_t *looks)
{
    bool running = s->state != SEQ_WAITING;
    if (!s->request->control.paused)
        s->sched.paused_at = 0;
    else if (!s->sched.paused_at)
        s->sched.paused_at = now;
    *r = (struct sched_req){
        .arrival = s->sched.arrival,
        .last_step = s->sched.last_step,
        .since = s->sched.since,
        .paused_ms = s->sched.paused_at / 1000,
        .user = r->user,
        .computed = running ? s->kv.n_tokens : found(core, s, looks),
        .known = seq_known(s),
        .draft = s->speculation.n_draft,
        .chance = s->speculation.guessed ? s->speculation.chance : NULL,
        .spent = s->sched.spent,
        .redone = s->sched.redone,
        .blocks = plan_blocks(core, s, core->plan.group),
        .group = SCHED_NONE,
        .class = class_of(s->request),
        .running = running,
        .decoding = s->generated > 0,
        .paused = s->request->control.paused,
        .busy = s->state == SEQ_ENCODING,
    };
    if (s->state == SEQ_RUNNING) show_stretch(core, s, r);
    if (s->state == SEQ_FETCHING) r->computed = r->known; /* nothing to compute until the fetch is done */
}

static void refresh(struct core *core, uint64_t now)
{
    struct plan *p = &core->plan;
    uint32_t looks = LOOKS;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!p->stale[i]) continue;
        struct seq *s = p->seqs[i];
        show(core, s, &p->reqs[i], now, &looks);
        bool shares = s->sched.with && s->sched.with_n > p->reqs[i].computed;
        p->n_sharing = p->n_sharing - s->sched.shares + shares;
        s->sched.shares = shares;
        /* A waiting sequence also changes with the one that it waits for and with its siblings. */
        p->stale[i] = s->state == SEQ_WAITING && (s->sched.with || s->group->n > 1);
    }
}

/* The sequence that computes the common prefix of a group, by index. */
static void group(struct plan *p)
{
    if (!p->n_sharing && !p->grouped) return;
    for (uint32_t i = 0; i < p->n; i++) {
        p->reqs[i].group = SCHED_NONE;
        p->reqs[i].shared = 0;
    }
    for (uint32_t i = 0; p->n_sharing && i < p->n; i++) {
        const struct seq *s = p->seqs[i], *t = s->sched.with;
        if (!s->sched.shares || !t->sched.planned) continue;
        struct sched_req *mine = &p->reqs[i], *its = &p->reqs[t->sched.index];
        mine->group = t->sched.index;
        mine->shared = s->sched.with_n - mine->computed;
        if (s->sched.with_n <= its->computed || its->group != SCHED_NONE) continue;
        its->group = t->sched.index;
        its->shared = s->sched.with_n - its->computed;
    }
    p->grouped = p->n_sharing;
}

void plan_view(struct core *core, struct sched_state *out)
{
    struct plan *p = &core->plan;
    uint64_t now = clock_now_usec();
    if (p->n_left) close_gaps(p);
    for (uint32_t i = p->n_viewed; i < p->n; i++) p->reqs[i].user = user_of(p, p->seqs[i]);
    p->n_viewed = p->n;
    p->views++;
    mark_due(core);
    plan_choose_group(core);
    refresh(core, now);
    group(p);
    *out = (struct sched_state){
        .reqs = p->reqs,
        .n = p->n,
        .users = p->accounts,
        .n_users = p->n_users,
        .now_ms = now / 1000,
        .free_blocks = plan_free_blocks(core, p->group),
    };
}
