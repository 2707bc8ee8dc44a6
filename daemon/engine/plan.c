/* SPDX-License-Identifier: MIT */
#include "daemon/engine/state.h"
#include <assert.h>
#include <errno.h>
#include <string.h>

#define LOOKS      8  /* waiting requests whose place in the cache is looked up at one decision, */
#define LOOK_STEPS 32 /* each after so many steps again */

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
    free(p->users);
    free(p->whose);
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
        if (!grow((void **)&p->users, users, sizeof(*p->users)) || !grow((void **)&p->whose, users, sizeof(*p->whose)))
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

/* The index of @s's uid; with UINT32_MAX: no memory. */
static uint32_t user_of(struct engine *e, struct seq *s)
{
    struct plan *p = &e->plan;
    if (!s->tally) s->tally = tally_hold(e, s->uid);
    struct tally *t = s->tally;
    if (!t) return UINT32_MAX;
    if (t->gathered == p->gathered) return t->user;
    if (t->gathered + 1 != p->gathered) t->account.waited = false; /* it had left */
    t->gathered = p->gathered;
    t->user = p->n_users++;
    p->whose[t->user] = t;
    p->users[t->user] = t->account;
    return t->user;
}

void plan_keep_accounts(struct engine *e)
{
    struct plan *p = &e->plan;
    for (uint32_t i = 0; i < p->n_users; i++) p->whose[i]->account = p->users[i];
}

/* --- common beginnings --- */

/* Tokens that both begin with, in whole blocks, which is what is handed over; 0: no more than @least, which is whole
 * blocks too. */
static uint32_t common(const struct seq *a, const struct seq *b, uint32_t least)
{
    uint32_t n = seq_known(a) < seq_known(b) ? seq_known(a) : seq_known(b), i = 0;
    const size_t block = PREFIX_BLOCK * sizeof(int32_t);
    const int32_t *x = seq_ids(a), *y = seq_ids(b);
    if (n < least + PREFIX_BLOCK || memcmp(&a->reuse.space, &b->reuse.space, sizeof(a->reuse.space)) != 0) return 0;
    /* Of many with the same long beginning most differ right behind it. */
    if (memcmp(x + least, y + least, block) != 0) return 0;
    while (n - i >= PREFIX_BLOCK && memcmp(x + i, y + i, block) == 0) i += PREFIX_BLOCK;
    return i > least ? i : 0;
}

static bool has_prompt(const struct seq *s)
{
    return s->state == SEQ_WAITING || s->state == SEQ_FETCHING || s->state == SEQ_RUNNING;
}

void plan_join(struct engine *e, struct seq *s)
{
    s->with = NULL;
    s->with_n = 0;
    for (struct seq *t = e->all.head; t; t = t->next) {
        if (t == s || t->arrival > s->arrival || !has_prompt(t) || t->generated) continue;
        uint32_t n = common(s, t, s->with_n);
        if (n == 0) continue;
        s->with = t;
        s->with_n = n;
    }
}

/* The first of those that waited for @s looks for another; the rest wait for that one now. To look for all of them would
 * take the square of their number. What they have in common with it is at least what both have in common with @s. */
void plan_part(struct engine *e, const struct seq *s)
{
    struct seq *heir = NULL;
    uint32_t heir_n = 0;
    assert(!has_prompt(s) || s->generated); /* or it would be chosen again */
    for (struct seq *t = e->all.head; t; t = t->next) {
        if (t->with != s) continue;
        uint32_t n = t->with_n;
        if (heir && heir->arrival < t->arrival) {
            t->with = heir;
            if (heir_n < n) t->with_n = heir_n;
            continue;
        }
        plan_join(e, t);
        heir = t;
        heir_n = n;
    }
}

/* --- gathering --- */

static enum sched_class class_of(const struct seq *s)
{
    if (s->public) return SCHED_CLASS_BATCH;
    switch (s->req.gen.priority) {
    case PROTO_PRIORITY_INFILL:
        return SCHED_CLASS_INFILL;
    case PROTO_PRIORITY_BATCH:
        return SCHED_CLASS_BATCH;
    case PROTO_PRIORITY_UNSET:
        return s->req.type == PROTO_INFILL ? SCHED_CLASS_INFILL : SCHED_CLASS_INTERACTIVE;
    default:
        return SCHED_CLASS_INTERACTIVE;
    }
}

/* What the cache has for one that waits: looked up when it comes and now and then, and what the one that it waits for
 * has computed since. */
static uint32_t found(struct engine *e, struct seq *s, uint32_t *looks)
{
    if (*looks > 0 && (s->looked_step == 0 || s->looked_step + LOOK_STEPS <= e->steps)) {
        --*looks;
        s->found = reuse_known(e, s);
        s->looked_step = e->steps + 1;
    }
    if (s->with && s->with->reuse.indexed > s->found)
        s->found = s->with->reuse.indexed < s->with_n ? s->with->reuse.indexed : s->with_n;
    uint32_t last = seq_known(s) - 1;
    return s->found < last ? s->found : last;
}

static void show(struct engine *e, struct seq *s, struct sched_req *r, uint32_t user, uint64_t now, uint32_t *looks)
{
    bool running = s->state != SEQ_WAITING;
    if (!s->paused)
        s->paused_at = 0;
    else if (!s->paused_at)
        s->paused_at = now;
    *r = (struct sched_req){
        .arrival = s->arrival,
        .last_step = s->last_step,
        .since = s->since,
        .paused_ms = s->paused_at / 1000,
        .user = user,
        .computed = running ? s->kv.n_tokens : found(e, s, looks),
        .known = seq_known(s),
        .spent = s->spent,
        .blocks = running ? s->kv.n_blocks : seq_blocks(s, e->config.batch_tokens) - reuse_shared(s),
        .group = SCHED_NONE,
        .class = class_of(s),
        .running = running,
        .decoding = s->generated > 0,
        .paused = s->paused,
    };
    if (s->state == SEQ_FETCHING) r->computed = r->known; /* nothing to do until it is back */
}

/* Who computes what others have in common with it, by index. */
static void group(struct plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) p->seqs[i]->index = i;
    for (uint32_t i = 0; i < p->n; i++) {
        struct seq *s = p->seqs[i], *t = s->with;
        if (!t || t->index >= p->n || p->seqs[t->index] != t || s->with_n <= p->reqs[i].computed) continue;
        struct sched_req *mine = &p->reqs[i], *its = &p->reqs[t->index];
        mine->group = t->index;
        mine->shared = s->with_n - mine->computed;
        if (s->with_n <= its->computed || its->group != SCHED_NONE) continue;
        its->group = t->index;
        its->shared = s->with_n - its->computed;
    }
}

int plan_gather(struct engine *e, struct sched_state *out)
{
    struct plan *p = &e->plan;
    uint64_t now = engine_now();
    uint32_t looks = LOOKS;
    p->n = p->n_users = 0;
    p->gathered++;
    for (struct seq *s = e->all.head; s; s = s->next) {
        if (!has_prompt(s)) continue;
        if (make_room(p) < 0) return -ENOMEM;
        uint32_t user = user_of(e, s);
        if (user == UINT32_MAX) return -ENOMEM;
        show(e, s, &p->reqs[p->n], user, now, &looks);
        p->seqs[p->n++] = s;
    }
    group(p);
    if (make_scratch(p) < 0) return -ENOMEM;
    *out = (struct sched_state){
        .reqs = p->reqs,
        .n = p->n,
        .users = p->users,
        .n_users = p->n_users,
        .now_ms = now / 1000,
        .free_blocks = kv_pool_free_blocks(e->pool) + prefix_evictable(e->prefix),
    };
    return 0;
}
