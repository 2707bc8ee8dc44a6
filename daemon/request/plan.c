/* SPDX-License-Identifier: MIT */
#include "daemon/request/plan.h"
#include "daemon/request/request.h"
#include "libcommon/clock.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS      8  /* waiting sequences that are looked up in the cache at one decision */
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
    free(p->runs);
    free(p->actions);
    free(p->places);
    free(p->accounts);
    free(p->users);
    free(p->scratch);
    *p = (struct plan){0};
}

static bool grow(void **a, uint32_t cap, size_t size)
{
    void *p = reallocarray(*a, cap, size);
    if (p) *a = p;
    return p;
}

/* Room for one more sequence and user. */
static int make_room(struct plan *p)
{
    uint32_t cap = p->cap ? 2 * p->cap : 64, users = p->cap_users ? 2 * p->cap_users : 16;
    if (p->n == p->cap) {
        if (!grow((void **)&p->seqs, cap, sizeof(*p->seqs)) || !grow((void **)&p->reqs, cap, sizeof(*p->reqs)) ||
            !grow((void **)&p->runs, cap, sizeof(*p->runs)) || !grow((void **)&p->actions, cap, sizeof(*p->actions)) ||
            !grow((void **)&p->places, cap, sizeof(*p->places)))
            return -ENOMEM;
        p->cap = cap;
    }
    if (p->n_users == p->cap_users) {
        if (!grow((void **)&p->accounts, users, sizeof(*p->accounts)) ||
            !grow((void **)&p->users, users, sizeof(*p->users)))
            return -ENOMEM;
        p->cap_users = users;
    }
    return 0;
}

static int make_scratch(struct plan *p)
{
    size_t size = sched_scratch_size(p->n, p->n_users);
    if (size <= p->scratch_size) return 0;
    void *m = realloc(p->scratch, size);
    if (!m) return -ENOMEM;
    p->scratch = m;
    p->scratch_size = size;
    return 0;
}

/* --- users --- */

/* The index of the user of @s. */
static uint32_t user_of(struct plan *p, const struct seq *s)
{
    struct user *u = s->request->user;
    if (u->gathered == p->gathered) return u->index;
    if (u->gathered + 1 != p->gathered) u->account.waited = false; /* it had no sequence meanwhile */
    u->gathered = p->gathered;
    u->index = p->n_users++;
    p->users[u->index] = u;
    p->accounts[u->index] = u->account;
    return u->index;
}

void plan_keep_accounts(struct core *core)
{
    struct plan *p = &core->plan;
    for (uint32_t i = 0; i < p->n_users; i++) p->users[i]->account = p->accounts[i];
}

/* --- common prefixes --- */

/* The length of the common prefix in tokens, whole blocks, because sequences share blocks. 0: not more than @least,
 * which is whole blocks too. */
static uint32_t common(const struct seq *a, const struct seq *b, uint32_t least)
{
    uint32_t n = seq_known(a) < seq_known(b) ? seq_known(a) : seq_known(b), i = 0;
    const size_t block = KV_BLOCK * sizeof(int32_t);
    const int32_t *x = seq_ids(a), *y = seq_ids(b);
    if (n < least + KV_BLOCK || memcmp(&a->reuse.namespace, &b->reuse.namespace, sizeof(a->reuse.namespace)) != 0)
        return 0;
    /* Most of many sequences with the same long prefix differ right after it. */
    if (memcmp(x + least, y + least, block) != 0) return 0;
    while (n - i >= KV_BLOCK && memcmp(x + i, y + i, block) == 0) i += KV_BLOCK;
    return i > least ? i : 0;
}

void plan_wait(struct core *core, struct seq *s)
{
    s->sched.since = core->plan.book.clock;
    s->sched.looked_step = 0;
    if (s->generated) s->sched.with = NULL;
}

/* Does it still compute its prompt, or will it? */
static bool computes_prompt(const struct seq *s)
{
    return s->state <= SEQ_RUNNING && !s->generated;
}

void plan_join(struct core *core, struct seq *s)
{
    s->sched.with = NULL;
    s->sched.with_n = 0;
    for (struct seq *t = core->seqs.head; t; t = t->next) {
        if (t == s || t->sched.arrival > s->sched.arrival || !computes_prompt(t)) continue;
        uint32_t n = common(s, t, s->sched.with_n);
        if (n == 0) continue;
        s->sched.with = t;
        s->sched.with_n = n;
    }
}

/* The first sequence that waited for @s looks for another one; the rest wait for the first now, because a search for
 * each would take quadratic time. Their common prefix with it is at least as long as what both had in common with @s.
 */
void plan_part(struct core *core, struct seq *s)
{
    struct seq *heir = NULL;
    uint32_t heir_n = 0;
    assert(!computes_prompt(s)); /* or plan_join would choose it again */
    for (struct seq *t = core->seqs.head; t; t = t->next) {
        if (t->sched.with != s) continue;
        if (!computes_prompt(t)) { /* it waits for none, and none can wait for it */
            t->sched.with = NULL;
            t->sched.with_n = 0;
            continue;
        }
        uint32_t n = t->sched.with_n;
        if (heir && heir->sched.arrival < t->sched.arrival) {
            t->sched.with = heir;
            if (heir_n < n) t->sched.with_n = heir_n;
            continue;
        }
        plan_join(core, t);
        heir = t;
        heir_n = n;
    }
}

/* --- gathering --- */

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

/* Cached tokens of a waiting sequence: looked up when it arrives and now and then, plus what the sequence that it waits
 * for has computed since. */
static uint32_t found(struct core *core, struct seq *s, uint32_t *looks)
{
    if (*looks > 0 && (s->sched.looked_step == 0 || s->sched.looked_step + LOOK_STEPS <= core->counts.steps)) {
        --*looks;
        s->sched.found = reuse_known(&core->cache, s);
        s->sched.looked_step = core->counts.steps + 1;
    }
    if (s->sched.with && s->sched.with->reuse.indexed > s->sched.found)
        s->sched.found =
            s->sched.with->reuse.indexed < s->sched.with_n ? s->sched.with->reuse.indexed : s->sched.with_n;
    uint32_t last = seq_known(s) - 1;
    return s->sched.found < last ? s->sched.found : last;
}

/* Blocks of @group that @s holds, or would hold. Of a group with a window it may have given some back. */
static uint32_t blocks_of(const struct core *core, const struct seq *s, uint32_t group)
{
    uint32_t held = s->kv.tables[group].n_blocks;
    if (!group) return s->state != SEQ_WAITING ? held : seq_blocks(s) - reuse_shared(s);
    uint32_t most = seq_group_blocks(s, &core->cache.backend->hparams.groups[group]);
    return s->state != SEQ_WAITING && held < most ? held : most;
}

/* Blocks of @group that sequences can have; of a group with a window those that no sequence holds, as if none were
 * shared. */
static uint32_t free_blocks(const struct core *core, uint32_t group)
{
    const struct kv_cache *c = &core->cache;
    if (!group) return kv_pool_free_blocks(c->pools[0]) + prefix_evictable(c->prefix);
    uint32_t left = kv_pool_total(c->pools[group]);
    for (const struct seq *s = core->seqs.head; s; s = s->next) {
        uint32_t held = s->kv.tables[group].n_blocks ? blocks_of(core, s, group) : 0;
        left -= held < left ? held : left;
    }
    return left;
}

/* The group with the smallest share of its blocks left: the scheduler counts blocks of one group only. */
static uint32_t tightest_group(const struct core *core)
{
    const struct kv_cache *c = &core->cache;
    uint32_t best = 0;
    for (uint32_t g = 1; g < c->n_groups; g++)
        if ((uint64_t)free_blocks(core, g) * kv_pool_total(c->pools[best]) <
            (uint64_t)free_blocks(core, best) * kv_pool_total(c->pools[g]))
            best = g;
    return best;
}

static void show(struct core *core, struct seq *s, struct sched_req *r, uint32_t user, uint64_t now, uint32_t *looks)
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
        .user = user,
        .computed = running ? s->kv.n_tokens : found(core, s, looks),
        .known = seq_known(s),
        .draft = s->n_draft,
        .spent = s->sched.spent,
        .blocks = blocks_of(core, s, core->plan.group),
        .group = SCHED_NONE,
        .class = class_of(s->request),
        .running = running,
        .decoding = s->generated > 0,
        .paused = s->request->control.paused,
    };
    if (s->state == SEQ_FETCHING) r->computed = r->known; /* nothing to compute until the fetch is done */
}

/* The sequence that computes the common prefix of a group, by index. */
static void group(struct plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) p->seqs[i]->sched.index = i;
    for (uint32_t i = 0; i < p->n; i++) {
        struct seq *s = p->seqs[i], *t = s->sched.with;
        if (!t || t->sched.index >= p->n || p->seqs[t->sched.index] != t || s->sched.with_n <= p->reqs[i].computed)
            continue;
        struct sched_req *mine = &p->reqs[i], *its = &p->reqs[t->sched.index];
        mine->group = t->sched.index;
        mine->shared = s->sched.with_n - mine->computed;
        if (s->sched.with_n <= its->computed || its->group != SCHED_NONE) continue;
        its->group = t->sched.index;
        its->shared = s->sched.with_n - its->computed;
    }
}

int plan_gather(struct core *core, struct sched_state *out)
{
    struct plan *p = &core->plan;
    uint64_t now = clock_now_usec();
    uint32_t looks = LOOKS;
    p->n = p->n_users = 0;
    p->gathered++;
    p->group = tightest_group(core);
    for (struct seq *s = core->seqs.head; s; s = s->next) {
        if (s->state > SEQ_RUNNING) continue;
        if (make_room(p) < 0) return -ENOMEM;
        show(core, s, &p->reqs[p->n], user_of(p, s), now, &looks);
        p->seqs[p->n++] = s;
    }
    group(p);
    if (make_scratch(p) < 0) return -ENOMEM;
    *out = (struct sched_state){
        .reqs = p->reqs,
        .n = p->n,
        .users = p->accounts,
        .n_users = p->n_users,
        .now_ms = now / 1000,
        .free_blocks = free_blocks(core, p->group),
    };
    return 0;
}
