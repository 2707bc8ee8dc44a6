/* SPDX-License-Identifier: MIT */
#include "tests/sched/fixture.h"
#include <assert.h>
#include <math.h>
#include <string.h>

#define NEVER UINT64_MAX

static uint64_t scratch[FIXTURE_REQS * 8];

uint32_t fixture_rnd(struct fixture *g, uint32_t n)
{
    g->rnd = g->rnd * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(g->rnd >> 33) % n;
}

/* Mostly small, sometimes large. */
static uint32_t rnd_size(struct fixture *g, uint32_t most)
{
    return 1 + fixture_rnd(g, 1 + (most >> fixture_rnd(g, 8)));
}

void fixture_init(struct fixture *g, uint64_t seed)
{
    struct fixture keep = *g;
    *g = (struct fixture){.rnd = seed, .starts = keep.starts, .cancels = keep.cancels, .stalls = keep.stalls};
    memcpy(g->preemptions, keep.preemptions, sizeof(g->preemptions));
    g->resumed = keep.resumed, g->lead = keep.lead, g->mixed = keep.mixed, g->slow = keep.slow;
    g->finished = keep.finished, g->restarts = keep.restarts, g->too_few = keep.too_few, g->steps = keep.steps;
    g->runs = keep.runs, g->due = keep.due, g->no_run = keep.steps;
    for (int i = 0; i < 5; i++) fixture_rnd(g, 2);
    sched_config_init(&g->c, 1 + fixture_rnd(g, 24), 16 << fixture_rnd(g, 6));
    sched_time_init(&g->b.time);
    g->pool = g->free = 120 + fixture_rnd(g, 2) * 3000; /* the largest request takes 110 */
    g->c.prefill_units = 1 + fixture_rnd(g, g->c.decode_units);
    g->machine[SCHED_TIME_FIXED] = 1 + fixture_rnd(g, 60);
    g->machine[SCHED_TIME_DECODE] = 0.1 + fixture_rnd(g, 100) / 20.0;
    g->machine[SCHED_TIME_PREFILL] = 0.1 + fixture_rnd(g, 100) / 20.0;
    g->machine[SCHED_TIME_DECODE_KV] = fixture_rnd(g, 100) / 100.0;
    g->machine[SCHED_TIME_PREFILL_KV] = fixture_rnd(g, 100) / 100.0;
    for (int i = 0; i < FIXTURE_GROUPS; i++) g->groups[i].user = fixture_rnd(g, FIXTURE_USERS);
}

static struct sched_state state_of(struct fixture *g)
{
    return (struct sched_state){g->reqs, g->n, g->users, FIXTURE_USERS, g->now_ms, g->free};
}

/* --- blocks --- */

static uint32_t blocks_of(uint32_t tokens)
{
    return (tokens + FIXTURE_BLOCK - 1) / FIXTURE_BLOCK;
}

/* The running request that holds the group's blocks. */
static uint32_t holders(const struct fixture *g, int group)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++) n += g->reqs[i].running && g->more[i].group == group && g->more[i].taken > 0;
    return n;
}

/* Count the free blocks of the pool. */
static uint32_t count_free(const struct fixture *g)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        used += g->more[i].own;
        if (!g->reqs[i].running) assert(g->more[i].own == 0);
    }
    for (int i = 0; i < FIXTURE_GROUPS; i++)
        if (holders(g, i)) used += g->groups[i].cached / FIXTURE_BLOCK;
    assert(used <= g->pool);
    return g->pool - used;
}

static uint32_t from_group(const struct fixture *g, const struct fixture_req *m)
{
    if (m->group < 0) return 0;
    uint32_t cached = g->groups[m->group].cached;
    return cached < m->common ? cached : m->common;
}

/* Preempted requests keep their blocks only while memory suffices. */
static void evict(struct fixture *g)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->n; i++) kept += g->reqs[i].running ? 0 : blocks_of(g->more[i].kept);
    for (uint32_t i = 0; i < g->n && kept > g->free; i++) {
        if (g->reqs[i].running) continue;
        kept -= blocks_of(g->more[i].kept);
        g->more[i].kept = 0;
    }
}

/* Tokens up to where a run begins, or the rest of it. A cache may end inside a run. */
static void describe_stretch(struct sched_req *r, const struct fixture_req *m)
{
    const uint32_t end = m->run_at + m->run_n;
    r->whole = r->running && r->computed >= m->run_at && r->computed < end;
    r->stretch = r->whole ? end - r->computed : r->running && r->computed < m->run_at ? m->run_at - r->computed : 0;
}

/* Build the scheduler's input as the engine does. */
static void describe(struct fixture *g)
{
    g->free = count_free(g);
    evict(g);
    int first[FIXTURE_GROUPS];
    memset(first, -1, sizeof(first));
    for (uint32_t i = 0; i < g->n; i++) {
        struct sched_req *r = &g->reqs[i];
        struct fixture_req *m = &g->more[i];
        if (m->group >= 0 && first[m->group] < 0) first[m->group] = (int)i;
        r->group = m->group < 0 ? SCHED_NONE : (uint32_t)first[m->group];
        uint32_t all = blocks_of(m->prompt + m->max), of_group = from_group(g, m) / FIXTURE_BLOCK;
        uint32_t whole = m->group < 0 ? 0 : g->groups[m->group].cached / FIXTURE_BLOCK;
        if (!r->running) {
            uint32_t kept = m->kept < r->known ? m->kept : r->known - 1;
            uint32_t cached = from_group(g, m) < r->known ? from_group(g, m) : r->known - 1;
            r->computed = kept > cached ? kept : cached;
            r->blocks = all - of_group + (of_group && !holders(g, m->group) ? whole : 0);
        } else {
            r->blocks = m->own + (m->taken && holders(g, m->group) == 1 ? whole : 0);
        }
        describe_stretch(r, m);
        r->shared = m->group >= 0 && m->common > r->computed && !m->generated ? m->common - r->computed : 0;
    }
}

/* --- events --- */

static void arrive(struct fixture *g)
{
    uint32_t i = g->n++, user = fixture_rnd(g, 2) ? 0 : fixture_rnd(g, FIXTURE_USERS); /* user 0 floods */
    struct fixture_req *m = &g->more[i];
    *m = (struct fixture_req){.used = true, .group = -1, .could_since = NEVER, .stepped = g->steps};
    m->prompt = rnd_size(g, FIXTURE_LONGEST - 402);
    m->max = rnd_size(g, 400);
    if (fixture_rnd(g, 3) == 0) {
        m->run_at = fixture_rnd(g, m->prompt);
        m->run_n = 1 + fixture_rnd(g, g->c.batch_tokens);
        if (m->run_n > m->prompt - m->run_at) m->run_n = m->prompt - m->run_at;
    }
    int group = (int)fixture_rnd(g, FIXTURE_GROUPS * 2);
    if (group < FIXTURE_GROUPS && g->groups[group].user == user) {
        m->group = group;
        m->common = fixture_rnd(g, m->prompt) / FIXTURE_BLOCK * FIXTURE_BLOCK;
    }
    g->reqs[i] = (struct sched_req){
        .arrival = ++g->arrivals,
        .since = g->b.clock,
        .user = user,
        .known = m->prompt,
        .class = (uint8_t)fixture_rnd(g, SCHED_CLASSES),
    };
}

static void end(struct fixture *g, uint32_t i)
{
    g->n--;
    g->reqs[i] = g->reqs[g->n];
    g->more[i] = g->more[g->n];
}

static void stall(struct fixture *g, uint32_t i)
{
    struct sched_req *r = &g->reqs[i];
    g->stalls += !r->paused;
    r->paused = !r->paused;
    r->paused_ms = g->now_ms;
}

/* Restart: only the requests remain, and arrive again. */
static void restart(struct fixture *g)
{
    g->restarts++;
    memset(g->users, 0, sizeof(g->users));
    memset(&g->b, 0, sizeof(g->b));
    sched_time_init(&g->b.time);
    for (int i = 0; i < FIXTURE_GROUPS; i++) g->groups[i].cached = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        struct fixture_req *m = &g->more[i];
        m->generated = m->own = m->taken = m->kept = m->reached = 0;
        m->could_since = NEVER;
        g->reqs[i].known = m->prompt;
        g->reqs[i].running = g->reqs[i].decoding = false;
        g->reqs[i].since = 0;
    }
}

static void events(struct fixture *g)
{
    if (!g->quiet && g->n < FIXTURE_REQS && fixture_rnd(g, 6) == 0) arrive(g);
    if (!g->quiet && fixture_rnd(g, 3000) == 0)
        for (uint32_t k = fixture_rnd(g, 40); k > 0 && g->n < FIXTURE_REQS; k--) arrive(g);
    if (g->n && fixture_rnd(g, 60) == 0) {
        end(g, fixture_rnd(g, g->n));
        g->cancels++;
    }
    for (uint32_t i = 0; i < g->n; i++)
        if (g->reqs[i].paused ? g->quiet || fixture_rnd(g, 40) == 0 : !g->quiet && fixture_rnd(g, 2000) == 0)
            stall(g, i);
    for (int i = 0; i < FIXTURE_GROUPS; i++)
        if (fixture_rnd(g, 500) == 0 && !holders(g, i)) g->groups[i].cached = 0; /* evicted */
    if (fixture_rnd(g, 20000) == 0) restart(g);
}

/* --- a decision --- */

static void check_not_computed_twice(const struct fixture *g, uint32_t i)
{
    const struct sched_req *r = &g->reqs[i];
    for (uint32_t k = 0; k < g->n && r->shared; k++) {
        const struct sched_req *o = &g->reqs[k];
        if (k == i || !o->running || o->paused || g->more[k].group != g->more[i].group) continue;
        if (o->known - o->computed > 1) assert(!o->shared);
    }
}

static void do_start(struct fixture *g, uint32_t i)
{
    struct sched_req *r = &g->reqs[i];
    struct fixture_req *m = &g->more[i];
    assert(!r->running && !r->paused);
    if (r->blocks > g->free) { /* only this way: a group's blocks were a victim's gain, and others found them too */
        assert(g->shared_victim);
        g->too_few++;
        return;
    }
    check_not_computed_twice(g, i);
    m->taken = from_group(g, m);
    m->own = blocks_of(m->prompt + m->max) - m->taken / FIXTURE_BLOCK;
    r->running = true;
    r->spent = r->redone = 0;
    g->resumed += m->gone_on;
    m->gone_on = true;
    g->starts++;
}

static void do_preempt(struct fixture *g, uint32_t i, enum sched_reason reason)
{
    struct sched_req *r = &g->reqs[i];
    struct fixture_req *m = &g->more[i];
    assert(r->running);
    if (reason == SCHED_YIELD) assert(r->paused && g->now_ms - r->paused_ms >= g->c.yield_ms);
    m->kept = fixture_rnd(g, 4) ? r->computed : 0;
    g->shared_victim |= m->taken > 0;
    m->own = m->taken = 0;
    r->running = false;
    r->since = g->b.clock;
    g->preemptions[reason]++;
}

static void decide(struct fixture *g)
{
    struct sched_action out[FIXTURE_REQS];
    bool seen[FIXTURE_REQS] = {false};
    describe(g);
    struct sched_state s = state_of(g);
    uint64_t floor = g->b.floor;
    g->shared_victim = false;
    uint32_t n = sched_decide(&g->c, &g->b, &s, scratch, out), running = 0, higher = 0;
    assert(g->b.floor >= floor);
    for (uint32_t k = 0; k < n; k++) {
        assert(out[k].index < g->n && !seen[out[k].index]);
        seen[out[k].index] = true;
        if (out[k].reason == SCHED_START)
            do_start(g, out[k].index);
        else
            do_preempt(g, out[k].index, out[k].reason);
        describe(g); /* asserts that blocks suffice */
    }
    for (uint32_t i = 0; i < g->n; i++) {
        running += g->reqs[i].running;
        higher += g->reqs[i].running && g->reqs[i].class < SCHED_CLASS_BATCH;
    }
    assert(running <= g->c.parallel_most && higher <= g->c.parallel);
}

/* --- fairness --- */

/* True if no request of its group runs. */
static bool could_run(const struct fixture *g, uint32_t i)
{
    const struct sched_req *r = &g->reqs[i];
    uint32_t others = g->free;
    if (r->running || r->paused) return false;
    for (uint32_t k = 0; k < g->n; k++) {
        const struct sched_req *o = &g->reqs[k];
        if (!o->running) continue;
        if (o->user != r->user) others += o->blocks;
        if (r->shared && g->more[k].group == g->more[i].group) return false;
    }
    return r->blocks <= others;
}

/* The first of @user's that could run, or FIXTURE_REQS; it, not a later one, is the one that is entitled. */
static uint32_t head_of(const struct fixture *g, uint32_t user)
{
    uint32_t best = FIXTURE_REQS;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct sched_req *r = &g->reqs[i], *b = &g->reqs[best % FIXTURE_REQS];
        if (r->user != user || r->running || r->paused) continue;
        if (best == FIXTURE_REQS || r->class < b->class || (r->class == b->class && r->arrival < b->arrival)) best = i;
    }
    return best < FIXTURE_REQS && could_run(g, best) ? best : FIXTURE_REQS;
}

static uint32_t slots_of(const struct fixture *g, uint32_t user)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++) n += g->reqs[i].user == user && g->reqs[i].running;
    return n;
}

static uint32_t answers_of(const struct fixture *g, uint32_t user)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++) n += g->reqs[i].user == user && g->reqs[i].running && g->reqs[i].decoding;
    return n;
}

static void check_fair(struct fixture *g)
{
    uint64_t most = sched_lead_max(&g->c, FIXTURE_LONGEST, g->pool < 1000);
    for (uint32_t u = 0; u < FIXTURE_USERS; u++) {
        uint32_t head = head_of(g, u);
        for (uint32_t i = 0; i < g->n; i++)
            if (g->reqs[i].user == u && i != head) g->more[i].could_since = NEVER;
        if (head == FIXTURE_REQS) continue;
        struct fixture_req *m = &g->more[head];
        if (m->could_since == NEVER) {
            m->could_since = g->b.clock;
            m->own_since = g->service[u];
            continue;
        }
        /* starved? everybody else may have had so much more than its own user */
        uint64_t all = g->b.clock - m->could_since, own = g->service[u] - m->own_since;
        assert(all <= FIXTURE_USERS * (own + 2 * most));
        for (uint32_t i = 0; i < g->n; i++) {
            uint32_t v = g->reqs[i].user;
            if (!g->reqs[i].running || v == u || g->users[v].served <= g->users[u].served) continue;
            if (g->reqs[i].decoding && answers_of(g, v) == 1 && slots_of(g, u)) continue;
            uint64_t lead = g->users[v].served - g->users[u].served;
            if (lead * 1000 / most > g->lead) g->lead = lead * 1000 / most;
            assert(lead <= most);
        }
    }
}

/* --- a step --- */

static double takes(struct fixture *g, const struct sched_load *x)
{
    const double *m = g->machine;
    return m[0] + m[1] * x->decode + m[2] * x->prefill + m[3] * x->decode_kv + m[4] * x->prefill_kv;
}

/* A request of a higher class than batch has tokens to compute. */
static bool has_higher(const struct fixture *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct sched_req *r = &g->reqs[i];
        if (r->running && !r->paused && !r->busy && r->known > r->computed && r->class != SCHED_CLASS_BATCH)
            return true;
    }
    return false;
}

static void check_time(struct fixture *g, const struct sched_load *load, bool higher, double ms)
{
    struct sched_load alone = *load;
    alone.prefill = 0, alone.prefill_kv = 0;
    double of = takes(g, &alone), most = fmax(g->c.step_ms, g->c.step_least * of);
    if (higher) most = fmin(most, g->c.step_ratio * of);
    if (!load->decode || load->prefill <= g->c.prefill_min || g->b.time.samples < 100 || load->due) return;
    g->mixed++;
    g->slow += ms > 1.25 * most;
}

static void advance(struct fixture *g, uint32_t i, const struct sched_run *run)
{
    struct sched_req *r = &g->reqs[i];
    struct fixture_req *m = &g->more[i];
    uint32_t units = sched_units(&g->c, r, run->n), again = m->reached > r->computed ? m->reached - r->computed : 0;
    r->spent += units;
    r->redone += sched_units(&g->c, r, again < run->n ? again : run->n);
    g->service[r->user] += units;
    r->last_step = m->stepped = g->steps;
    r->computed += run->n;
    if (m->reached < r->computed) m->reached = r->computed;
    if (run->logits) {
        m->generated++;
        r->decoding = true;
        r->known++;
    }
    if (m->group < 0) return;
    /* what is new and common goes to the cache */
    struct fixture_group *p = &g->groups[m->group];
    uint32_t to = (r->computed < m->common ? r->computed : m->common) / FIXTURE_BLOCK * FIXTURE_BLOCK;
    if (m->taken != p->cached || to <= p->cached) return;
    m->own -= (to - p->cached) / FIXTURE_BLOCK;
    p->cached = m->taken = to;
}

/* While whole stretches are ready, one is computed every few steps. */
static void check_whole(struct fixture *g, const struct sched_run *runs, uint32_t n)
{
    bool ready = false, computed = false;
    for (uint32_t i = 0; i < g->n; i++)
        ready |= g->reqs[i].whole && !g->reqs[i].paused && g->reqs[i].computed < g->reqs[i].known;
    for (uint32_t k = 0; k < n; k++) {
        const struct sched_req *r = &g->reqs[runs[k].index];
        if (!r->whole) continue;
        assert(runs[k].n == r->stretch);
        computed = true;
        g->runs++;
    }
    if (!ready || computed) g->no_run = g->steps;
    assert(g->steps - g->no_run <= g->c.prefill_gap + 2);
}

static void check_runs(struct fixture *g, const struct sched_run *runs, uint32_t n)
{
    uint32_t tokens = 0, running = 0;
    for (uint32_t k = 0; k < n; k++) {
        const struct sched_req *r = &g->reqs[runs[k].index];
        assert(r->running && !r->paused && runs[k].n && r->computed + runs[k].n <= r->known);
        tokens += runs[k].n;
    }
    assert(tokens <= g->c.batch_tokens);
    check_whole(g, runs, n);
    for (uint32_t i = 0; i < g->n; i++) running += g->reqs[i].running;
    for (uint32_t i = 0; i < g->n; i++) { /* a decoding request waits at most until all others had a token */
        const struct sched_req *r = &g->reqs[i];
        if (!r->running || r->paused || !r->decoding || r->known - r->computed != 1) g->more[i].stepped = g->steps;
        uint64_t turn = running / (g->c.batch_tokens) + 1;
        if (g->c.batch_tokens >= g->c.short_tokens) /* users take turns in 4 tokens, and so do the answers of a user */
            turn = running * running / 16 + running + 1;
        assert(g->steps - g->more[i].stepped <= 2 * (turn + turn / g->c.prefill_gap + 1));
    }
}

void fixture_step(struct fixture *g)
{
    struct sched_run runs[FIXTURE_REQS];
    struct sched_load load;
    events(g);
    decide(g);
    check_fair(g);
    g->steps++;
    struct sched_state s = state_of(g);
    uint32_t n = sched_step(&g->c, &g->b, &s, scratch, runs, &load);
    check_runs(g, runs, n);
    double ms = n ? takes(g, &load) : 5;
    if (n) {
        check_time(g, &load, has_higher(g), ms);
        g->due += load.due;
        double seen = ms * (0.95 + 0.1 * fixture_rnd(g, 1000) / 1000) * (fixture_rnd(g, 300) ? 1 : 40);
        sched_done(&g->c, &g->b, &s, runs, n, &load, seen);
    }
    g->now_ms += (uint64_t)ms + 1;
    for (uint32_t k = 0; k < n; k++) advance(g, runs[k].index, &runs[k]);
    for (uint32_t i = g->n; i-- > 0;) {
        if (g->more[i].generated < g->more[i].max) continue;
        g->finished++;
        end(g, i);
    }
}

void fixture_drain(struct fixture *g)
{
    uint64_t work = 0;
    g->quiet = true;
    for (uint32_t i = 0; i < g->n; i++) work += g->more[i].prompt + g->more[i].max;
    /* at worst a block of prompt every few steps, or one token a step */
    for (uint64_t steps = 0; g->n; steps++) {
        assert(steps < 20 * work + 1000);
        fixture_step(g);
    }
    describe(g);
    assert(g->free == g->pool);
}
