/* SPDX-License-Identifier: MIT */
#include "tests/sched/naive.h"
#include <string.h>

#define STARTS_MOST 64
#define MOVES_MOST  4
#define HOPS_MOST   8

struct account {
    uint32_t slots, firsts, lowest; /* of its running requests; the lowest class as a number */
    uint32_t waiting;
    uint64_t expected, key;
    uint32_t tie;
    bool queued; /* it may start requests in this decision */
};

struct naive {
    const struct sched_config *c;
    const struct sched_book *b;
    const struct sched_state *s;
    struct naive_decision *d;
    struct account users[NAIVE_MOST];
    bool ready[NAIVE_MOST];    /* a waiting request that may start */
    bool computes[NAIVE_MOST]; /* it runs, or starts now, and computes more than one token */
    bool done[NAIVE_MOST];
    uint32_t slots, blocks, moved, slots_most;
    uint32_t higher; /* running requests that are not of class batch */
    uint64_t served_most;
    bool slow, memory_short, searched_blocks, open;
    bool refused;
    uint32_t refused_slots;
    uint64_t refused_served;
};

static uint32_t left_of(const struct sched_req *r)
{
    return r->known - r->computed;
}

static bool is_first(const struct naive *x, const struct sched_req *r)
{
    return !r->decoding && left_of(r) <= x->c->express_tokens;
}

static bool is_slow(const struct naive *x, const struct sched_req *r)
{
    return r->paused && x->s->now_ms >= r->paused_ms + x->c->yield_ms;
}

static uint64_t expected(const struct sched_config *c, const struct sched_req *r, uint32_t spent)
{
    uint64_t prompt = (uint64_t)left_of(r) * c->prefill_units, rest = spent < c->quantum ? c->quantum - spent : 0;
    return prompt > rest ? prompt : rest;
}

static uint32_t kept(const struct account *a)
{
    return a->firsts ? a->slots - 1 : a->slots;
}

/* --- shared prefixes --- */

/* Does a request that runs compute the prefix of which request @i is the first? */
static bool in_progress(const struct naive *x, uint32_t i)
{
    if (x->computes[i]) return true;
    for (uint32_t k = 0; k < x->s->n; k++)
        if (x->computes[k] && x->s->reqs[k].group == i && x->s->reqs[k].shared) return true;
    return false;
}

static bool waits_for_prefix(const struct naive *x, uint32_t i)
{
    if (in_progress(x, i)) return true;
    for (int hop = 0; hop < HOPS_MOST; hop++) {
        const struct sched_req *r = &x->s->reqs[i];
        if (r->running || r->group == SCHED_NONE || !r->shared) return false;
        if (in_progress(x, r->group)) return true;
        i = r->group;
    }
    return false;
}

/* --- accounts --- */

static void add_running(struct naive *x, uint32_t i, uint32_t spent, int sign)
{
    const struct sched_req *r = &x->s->reqs[i];
    struct account *a = &x->users[r->user];
    a->slots += (uint32_t)sign;
    a->firsts += is_first(x, r) ? (uint32_t)sign : 0;
    a->expected += (uint64_t)sign * expected(x->c, r, spent);
    x->slots -= (uint32_t)sign;
    x->higher += r->class != SCHED_CLASS_BATCH ? (uint32_t)sign : 0;
    if (a->slots > x->slots_most) x->slots_most = a->slots;
}

static void add_action(struct naive *x, uint32_t i, enum sched_reason reason)
{
    x->d->out[x->d->n++] = (struct sched_action){i, reason};
    x->done[i] = true;
}

/* One more slot as long as a step with it is short. */
static uint32_t batch_slots(const struct naive *x)
{
    uint32_t n = 0, slots = x->c->parallel_batch;
    uint64_t known = 0;
    for (uint32_t i = 0; i < x->s->n; i++) {
        const struct sched_req *r = &x->s->reqs[i];
        if (r->running || !r->paused) known += r->known, n++;
    }
    while (n && x->b->time.samples && slots < x->c->parallel_most) {
        const struct sched_load load = {.decode = slots + 1, .decode_kv = (double)known / n * (slots + 1) / 1000};
        if (sched_time_of(&x->b->time, &load) > x->c->step_ms) break;
        slots++;
    }
    return slots;
}

static void begin(struct naive *x)
{
    const struct sched_state *s = x->s;
    uint64_t wanted = 0;
    uint32_t running = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (!r->running) continue;
        running++;
        add_running(x, i, r->spent, 1);
        if (r->class > x->users[r->user].lowest) x->users[r->user].lowest = r->class;
        if (is_slow(x, r)) x->slow = true;
        if (s->users[r->user].served > x->served_most) x->served_most = s->users[r->user].served;
        x->computes[i] = !r->paused && left_of(r) > 1;
    }
    uint32_t slots = batch_slots(x);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->reqs[i].class != SCHED_CLASS_BATCH && (s->reqs[i].running || !s->reqs[i].paused)) slots = x->c->parallel;
    x->slots = running < slots ? slots - running : 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (r->running || r->paused || waits_for_prefix(x, i)) continue;
        x->ready[i] = true;
        x->users[r->user].waiting++;
        wanted += r->blocks;
    }
    x->memory_short = wanted > s->free_blocks;
}

/* --- preemption --- */

static bool has_progressed(const struct naive *x, const struct sched_req *r)
{
    if (!x->memory_short && r->redone == 0) return true;
    return r->spent - r->redone >= x->c->quantum + r->redone / SCHED_REDONE_SHARE;
}

static bool is_quantum_over(const struct naive *x, const struct sched_req *r)
{
    uint64_t longer = x->memory_short ? (uint64_t)r->computed * SCHED_RECOMPUTE_FACTOR : 0;
    return r->spent >= x->c->quantum + longer;
}

/* @by lacks few tokens of its prompt, @r does not (or is one of several of its user that do). */
static bool yields_to_first(const struct naive *x, const struct sched_req *r, const struct sched_req *by)
{
    const struct account *a = &x->users[by->user], *v = &x->users[r->user];
    const struct sched_user *served = x->d->users;
    if (!is_first(x, by)) return false;
    if (is_first(x, r) && v->firsts < 2) return false;
    if (kept(v) <= a->slots) return false;
    if (kept(v) == 1 && x->slots_most >= a->slots + 2) return false; /* another user has two slots more */
    if (a->slots == 0 && kept(v) >= 2) return true;
    return served[by->user].served <= served[r->user].served + x->c->express_lead;
}

static enum sched_reason reason_of(const struct naive *x, const struct sched_req *r, const struct sched_req *by)
{
    const struct account *a = &x->users[by->user], *v = &x->users[r->user];
    uint64_t own = x->d->users[by->user].served, other = x->d->users[r->user].served;
    if (is_slow(x, r)) return SCHED_YIELD;
    if (r->user == by->user) return by->class < r->class ? SCHED_CLASS : SCHED_START;
    if (r->redone == 0 && yields_to_first(x, r, by)) return SCHED_EVEN;
    if (!has_progressed(x, r)) return SCHED_START;
    if (other >= own + x->c->quantum && is_quantum_over(x, r)) return SCHED_QUANTUM;
    if (other >= own && kept(v) >= a->slots + 2) return SCHED_EVEN;
    return yields_to_first(x, r, by) ? SCHED_EVEN : SCHED_START;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Negative: @a is the better victim. */
static int compare_victims(const struct naive *x, const struct sched_action *i, const struct sched_action *k)
{
    const struct sched_req *a = &x->s->reqs[i->index], *b = &x->s->reqs[k->index];
    bool same_a = i->reason <= SCHED_CLASS, same_b = k->reason <= SCHED_CLASS;
    int c = compare(k->reason == SCHED_YIELD, i->reason == SCHED_YIELD);
    if (!c && i->reason == SCHED_YIELD) c = compare(a->paused_ms, b->paused_ms);
    if (!c) c = compare(same_b, same_a);
    if (!c && i->reason == SCHED_EVEN && k->reason == SCHED_EVEN)
        c = compare(kept(&x->users[b->user]), kept(&x->users[a->user]));
    if (!c && !same_a) c = compare(x->d->users[b->user].served, x->d->users[a->user].served);
    if (!c) c = compare(b->class, a->class);
    return c ? c : compare(b->arrival, a->arrival);
}

/* Has @r no slot until a request that is not of class batch gives its own? */
static bool is_full(const struct naive *x, const struct sched_req *r)
{
    return r->class != SCHED_CLASS_BATCH && x->higher >= x->c->parallel;
}

static bool find_victim(const struct naive *x, const struct sched_req *by, bool blocks, struct sched_action *best)
{
    bool found = false;
    for (uint32_t i = 0; i < x->s->n; i++) {
        const struct sched_req *r = &x->s->reqs[i];
        struct sched_action v = {i, SCHED_START};
        if (!r->running || x->done[i] || (blocks && r->blocks == 0)) continue;
        if (is_full(x, by) && r->class == SCHED_CLASS_BATCH) continue;
        v.reason = reason_of(x, r, by);
        bool only = r->decoding && r->redone == 0 && kept(&x->users[r->user]) <= 1 && x->users[by->user].slots > 0;
        if (v.reason == SCHED_START || (v.reason == SCHED_QUANTUM && !blocks && only)) continue;
        if (!found || compare_victims(x, &v, best) < 0) *best = v;
        found = true;
    }
    return found;
}

static bool may_search(const struct naive *x, const struct sched_req *by)
{
    const struct account *a = &x->users[by->user];
    uint64_t own = x->d->users[by->user].served;
    if (x->moved >= MOVES_MOST || (by->blocks > x->blocks && x->searched_blocks)) return false;
    if (x->slow || (a->slots && a->lowest > by->class)) return true;
    if (is_first(x, by)) return x->slots_most > a->slots || x->served_most >= own + x->c->quantum;
    if (x->refused && own >= x->refused_served && a->slots >= x->refused_slots) return false;
    return x->slots_most >= a->slots + 2 || x->served_most >= own + x->c->quantum;
}

static void preempt(struct naive *x, const struct sched_action *v, int sign)
{
    const struct sched_req *r = &x->s->reqs[v->index];
    uint32_t most = x->slots_most;
    add_running(x, v->index, r->spent, -sign);
    x->slots_most = most;
    if (!r->paused) x->users[r->user].waiting += (uint32_t)sign;
    x->blocks += (uint32_t)sign * r->blocks;
    if (sign > 0) {
        add_action(x, v->index, v->reason);
    } else {
        x->d->n--;
        x->done[v->index] = false;
    }
}

static bool make_room(struct naive *x, const struct sched_req *by)
{
    uint32_t before = x->d->n;
    bool short_of_blocks = by->blocks > x->blocks;
    struct sched_action v = {0};
    if (!may_search(x, by)) return false;
    x->searched_blocks |= short_of_blocks;
    while ((x->slots == 0 || is_full(x, by) || by->blocks > x->blocks) &&
           find_victim(x, by, by->blocks > x->blocks, &v))
        preempt(x, &v, 1);
    if (x->slots > 0 && !is_full(x, by) && by->blocks <= x->blocks) {
        x->moved += x->d->n - before;
        return true;
    }
    while (x->d->n > before) preempt(x, &(struct sched_action){x->d->out[x->d->n - 1].index, 0}, -1);
    if (short_of_blocks || is_full(x, by)) return false;
    x->refused = true;
    x->refused_slots = x->users[by->user].slots;
    x->refused_served = x->d->users[by->user].served;
    return false;
}

/* --- starts --- */

/* The user's first request by class and arrival; SCHED_NONE: none. */
static uint32_t head_of(const struct naive *x, uint32_t user)
{
    uint32_t best = SCHED_NONE;
    for (uint32_t i = 0; i < x->s->n; i++) {
        const struct sched_req *r = &x->s->reqs[i], *b = best == SCHED_NONE ? NULL : &x->s->reqs[best];
        if (!x->ready[i] || r->user != user) continue;
        if (!b || r->class < b->class || (r->class == b->class && r->arrival < b->arrival)) best = i;
    }
    return best;
}

static void queue(struct naive *x, uint32_t user)
{
    struct account *a = &x->users[user];
    uint32_t head = head_of(x, user);
    bool sooner = a->slots == 0 && head != SCHED_NONE && left_of(&x->s->reqs[head]) <= x->c->express_tokens;
    a->queued = true;
    a->key = x->d->users[user].served + a->expected + (sooner ? 0 : UINT64_C(1) << 62);
    a->tie = a->slots;
}

static uint32_t next_user(struct naive *x)
{
    uint32_t best = SCHED_NONE;
    bool open = false;
    for (uint32_t u = 0; u < x->s->n_users; u++) {
        if (!x->users[u].queued) continue;
        const struct account *a = &x->users[u], *b = &x->users[best == SCHED_NONE ? u : best];
        int c = compare(a->key, b->key);
        if (!c) c = compare(a->tie, b->tie);
        if (best == SCHED_NONE || c < 0)
            best = u, open = false;
        else if (c == 0)
            open = true;
    }
    x->open |= open;
    return best;
}

static void start(struct naive *x, uint32_t i)
{
    const struct sched_req *r = &x->s->reqs[i];
    add_action(x, i, SCHED_START);
    add_running(x, i, 0, 1);
    x->blocks -= r->blocks;
    x->users[r->user].waiting--;
    x->ready[i] = false;
    x->computes[i] = !r->paused && left_of(r) > 1;
}

static void fill_slots(struct naive *x)
{
    for (uint32_t u, starts = 0; starts < STARTS_MOST && (u = next_user(x)) != SCHED_NONE;) {
        uint32_t i;
        while ((i = head_of(x, u)) != SCHED_NONE && waits_for_prefix(x, i)) {
            x->ready[i] = false;
            x->users[u].waiting--;
        }
        const struct sched_req *r = i == SCHED_NONE ? NULL : &x->s->reqs[i];
        bool fits = r && r->blocks <= x->blocks;
        if (r && ((x->slots && !is_full(x, r) && fits) || make_room(x, r))) {
            start(x, i);
            starts++;
            queue(x, u);
            continue;
        }
        if (r && !fits && x->b->clock - r->since >= x->c->patience) return;
        x->users[u].queued = false;
    }
}

bool naive_decide(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                  struct naive_decision *d)
{
    static struct naive x;
    x = (struct naive){.c = c, .b = b, .s = s, .d = d, .blocks = s->free_blocks};
    uint64_t least = UINT64_MAX, most = 0;
    d->n = 0;
    memcpy(d->users, s->users, s->n_users * sizeof(*s->users));
    begin(&x);
    for (uint32_t u = 0; u < s->n_users; u++) {
        if (!x.users[u].waiting) continue;
        if (!d->users[u].waited && d->users[u].served < b->floor) d->users[u].served = b->floor;
        queue(&x, u);
    }
    fill_slots(&x);
    for (uint32_t u = 0; u < s->n_users; u++) {
        uint64_t served = d->users[u].served;
        d->users[u].waited = x.users[u].waiting > 0;
        if (x.users[u].slots && served > most) most = served;
        if (x.users[u].waiting && served < least) least = served;
    }
    d->floor = least == UINT64_MAX ? most : least;
    if (d->floor < b->floor) d->floor = b->floor;
    return !x.open;
}
