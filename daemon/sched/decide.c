/* SPDX-License-Identifier: MIT */
/* Decides which requests start and which are preempted. */
#include "daemon/sched/internal.h"
#include <string.h>

#define HOPS_MOST   8
#define STARTS_MOST 64 /* maximum starts in one decision; the next decision follows before the next step */
#define MOVES_MOST  4  /* maximum preemptions in one decision, except for blocks */

#define LATER (UINT64_C(1) << 62) /* above all accounts */

struct decision {
    const struct sched_config *c;
    const struct sched_book *b;
    const struct sched_state *s;
    struct sched_scratch x;
    struct sched_action *out;
    uint32_t n_out, n_heap;
    uint32_t n_running, n_waiting; /* in x.list: the running requests at its start, the waiting ones at its end */
    uint32_t moved;                /* preemptions so far */
    uint32_t slots, blocks;        /* free slots and blocks */
    uint32_t higher;               /* running requests of higher classes than batch */
    uint32_t slots_most;           /* largest number of slots of one user */
    uint64_t served_most;          /* largest account of the users that run something */
    bool slow;                     /* a running request has a slow reader and may be preempted */
    bool memory_short; /* the waiting requests do not all fit into memory: a victim may lose its computed tokens */
    bool refused;      /* no victim was found for a user with this number of slots and this account */
    uint32_t refused_slots;
    uint64_t refused_served;
    bool searched_blocks; /* a search for blocks was made; it is long, so a decision makes one at most */
};

/* --- actions --- */

static void add_action(struct decision *d, uint32_t index, enum sched_reason reason)
{
    d->out[d->n_out++] = (struct sched_action){index, reason};
    d->x.done[index] = true;
}

/* --- the current state --- */

/* The request @r runs: note that it will compute shared tokens for its group. It does not if it has computed them
 * already or is paused. */
static void mark_progress(const struct decision *d, const struct sched_req *r, uint32_t index)
{
    if (r->paused || r->known - r->computed <= 1) return;
    d->x.progress[index] = true;
    if (r->group != SCHED_NONE && r->shared) d->x.progress[r->group] = true;
}

/* True if another request computes the tokens that @r needs next, or if others of its group wait for this one. */
static bool is_shared(const struct decision *d, const struct sched_req *r, uint32_t index)
{
    if (d->x.progress[index]) return true;
    for (int hop = 0; hop < HOPS_MOST && !r->running && r->group != SCHED_NONE && r->shared; hop++) {
        if (d->x.progress[r->group]) return true;
        r = &d->s->reqs[r->group];
    }
    return false;
}

static bool is_slow(const struct decision *d, const struct sched_req *r)
{
    return r->paused && d->s->now_ms >= r->paused_ms && d->s->now_ms - r->paused_ms >= d->c->yield_ms;
}

/* True if @r has only a few tokens of its prompt left, so that it needs a slot for a step or two. */
static bool is_first_token(const struct decision *d, const struct sched_req *r)
{
    return !r->decoding && r->known - r->computed <= d->c->express_tokens;
}

/* True if as many requests of higher classes than batch run as there may: only one of them makes room for @r. */
static bool is_full_for(const struct decision *d, const struct sched_req *r)
{
    return sched_is_higher(r) && d->higher >= d->c->parallel;
}

static void count_running(struct decision *d)
{
    const struct sched_state *s = d->s;
    bool waits = false; /* one of a higher class than batch */
    d->blocks = s->free_blocks;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (!r->running) {
            if (r->paused) continue;
            d->x.list[s->n - ++d->n_waiting] = i;
            waits |= sched_is_higher(r);
            continue;
        }
        struct sched_usage *w = &d->x.usage[r->user];
        d->x.list[d->n_running++] = i;
        w->expected += sched_expected_units(d->c, r, r->spent);
        w->firsts += is_first_token(d, r);
        d->higher += sched_is_higher(r);
        if (++w->slots > d->slots_most) d->slots_most = w->slots;
        if (r->class > w->lowest) w->lowest = r->class;
        d->slow |= is_slow(d, r);
        if (s->users[r->user].served > d->served_most) d->served_most = s->users[r->user].served;
        mark_progress(d, r, i);
    }
    const uint32_t all = waits || d->higher ? d->c->parallel : d->c->parallel_batch;
    d->slots = all > d->n_running ? all - d->n_running : 0;
}

static void count_waiting(struct decision *d)
{
    const struct sched_state *s = d->s;
    uint32_t *list = d->x.list + s->n - d->n_waiting, n = 0;
    uint64_t wanted = 0;
    for (uint32_t k = 0; k < d->n_waiting; k++) {
        const struct sched_req *r = &s->reqs[list[k]];
        if (is_shared(d, r, list[k])) continue;
        d->x.usage[r->user].n++;
        list[n++] = list[k];
    }
    for (uint32_t u = 0; u < s->n_users; u++) d->x.usage[u].waiting = d->x.usage[u].n;
    sched_partition(&d->x, s->n_users);
    for (uint32_t k = 0; k < n; k++) {
        const struct sched_req *r = &s->reqs[list[k]];
        struct sched_usage *w = &d->x.usage[r->user];
        d->x.items[w->first + w->n++] = sched_item_of(r, list[k]);
        wanted += r->blocks;
    }
    d->memory_short = wanted > s->free_blocks;
}

/* --- victims --- */

/* True if @r loses no tokens by a preemption, or has computed enough new ones in its slot. */
static bool has_progressed(const struct decision *d, const struct sched_req *r)
{
    return (!d->memory_short && !r->redone) || r->spent - r->redone >= d->c->quantum + r->redone / SCHED_REDONE_SHARE;
}

/* True if @r has received its quantum, which is longer while a preemption may discard computed tokens. */
static bool is_quantum_over(const struct decision *d, const struct sched_req *r)
{
    return r->spent >= d->c->quantum + (d->memory_short ? SCHED_RECOMPUTE_FACTOR * (uint64_t)r->computed : 0);
}

/* True if @r must give its slot to @by because @by needs only a first token. The slot is free again before the account
 * of @by's user is far ahead. */
static bool yields_to_first_token(const struct decision *d, const struct sched_req *r, const struct sched_req *by)
{
    const struct sched_usage *by_usage = &d->x.usage[by->user], *r_usage = &d->x.usage[r->user];
    uint32_t kept = sched_kept(r_usage);
    bool none = !by_usage->slots && kept > 1; /* the first answer of a user comes before the second of another */
    return is_first_token(d, by) && (!is_first_token(d, r) || r_usage->firsts > 1) && kept > by_usage->slots &&
           (kept > 1 || d->slots_most < by_usage->slots + 2) &&
           (none || d->s->users[r->user].served + d->c->express_lead >= d->s->users[by->user].served);
}

/* True if @r is the only answer of its user, and the user of @by has a slot as well. */
static bool is_only_answer(const struct decision *d, const struct sched_req *r, const struct sched_req *by)
{
    return r->decoding && !r->redone && sched_kept(&d->x.usage[r->user]) <= 1 && d->x.usage[by->user].slots;
}

/* The reason for which the running request @r may be preempted for @by. SCHED_START: it may not. */
static enum sched_reason preempt_reason(const struct decision *d, const struct sched_req *r, const struct sched_req *by)
{
    const struct sched_usage *by_usage = &d->x.usage[by->user], *r_usage = &d->x.usage[r->user];
    uint64_t by_account = d->s->users[by->user].served, r_account = d->s->users[r->user].served;
    if (is_slow(d, r)) return SCHED_YIELD;
    if (r->user == by->user) return r->class > by->class ? SCHED_CLASS : SCHED_START;
    if (!r->redone && yields_to_first_token(d, r, by)) return SCHED_EVEN;
    if (!has_progressed(d, r)) return SCHED_START;
    if (r_account >= by_account + d->c->quantum && is_quantum_over(d, r)) return SCHED_QUANTUM;
    if (r_account >= by_account && sched_kept(r_usage) >= by_usage->slots + 2) return SCHED_EVEN;
    if (yields_to_first_token(d, r, by)) return SCHED_EVEN;
    return SCHED_START;
}

/* True if @a, preempted for @reason_a, is a better victim than @b. The order: slow readers; requests of the same user;
 * the user with the largest account; the lowest class; the last arrival. */
static bool is_better_victim(const struct decision *d, const struct sched_req *a, enum sched_reason reason_a,
                             const struct sched_req *b, enum sched_reason reason_b)
{
    bool other_a = reason_a > SCHED_CLASS, other_b = reason_b > SCHED_CLASS;
    if ((reason_a == SCHED_YIELD) != (reason_b == SCHED_YIELD)) return reason_a == SCHED_YIELD;
    if (reason_a == SCHED_YIELD && a->paused_ms != b->paused_ms) return a->paused_ms < b->paused_ms;
    if (other_a != other_b) return other_b;
    uint32_t kept_a = sched_kept(&d->x.usage[a->user]), kept_b = sched_kept(&d->x.usage[b->user]);
    if (reason_a == SCHED_EVEN && reason_b == SCHED_EVEN && kept_a != kept_b) return kept_a > kept_b;
    uint64_t account_a = d->s->users[a->user].served, account_b = d->s->users[b->user].served;
    if (other_a && account_a != account_b) return account_a > account_b;
    if (a->class != b->class) return a->class > b->class;
    return a->arrival > b->arrival;
}

/* The best victim for @by, or SCHED_NONE. @blocks: only victims that free blocks. */
static uint32_t find_victim(const struct decision *d, const struct sched_req *by, bool blocks,
                            enum sched_reason *reason)
{
    uint32_t best = SCHED_NONE;
    for (uint32_t k = 0; k < d->n_running; k++) {
        uint32_t i = d->x.list[k];
        const struct sched_req *r = &d->s->reqs[i];
        if (d->x.done[i] || (blocks && !r->blocks) || (!sched_is_higher(r) && is_full_for(d, by))) continue;
        enum sched_reason w = preempt_reason(d, r, by);
        if (w == SCHED_START || (w == SCHED_QUANTUM && !blocks && is_only_answer(d, r, by))) continue;
        if (best != SCHED_NONE && !is_better_victim(d, r, w, &d->s->reqs[best], *reason)) continue;
        best = i;
        *reason = w;
    }
    return best;
}

static void preempt(struct decision *d, uint32_t index, enum sched_reason reason)
{
    const struct sched_req *r = &d->s->reqs[index];
    struct sched_usage *w = &d->x.usage[r->user];
    add_action(d, index, reason);
    w->slots--;
    w->firsts -= is_first_token(d, r);
    w->expected -= sched_expected_units(d->c, r, r->spent);
    if (!r->paused) w->waiting++; /* it may start again in the next decision */
    d->higher -= sched_is_higher(r);
    d->slots++;
    d->blocks += r->blocks;
}

/* Undo the last preemption, which did not free enough. */
static void undo_preempt(struct decision *d)
{
    uint32_t index = d->out[--d->n_out].index;
    const struct sched_req *r = &d->s->reqs[index];
    struct sched_usage *w = &d->x.usage[r->user];
    d->x.done[index] = false;
    w->slots++;
    w->firsts += is_first_token(d, r);
    w->expected += sched_expected_units(d->c, r, r->spent);
    if (!r->paused) w->waiting--;
    d->higher += sched_is_higher(r);
    d->slots--;
    d->blocks -= r->blocks;
}

/* True if no running request can be preempted for @by. This is known without a search. */
static bool has_no_victim(const struct decision *d, const struct sched_req *by)
{
    const struct sched_usage *w = &d->x.usage[by->user];
    uint64_t account = d->s->users[by->user].served;
    if (d->slow || w->lowest > by->class) return false;
    bool first = is_first_token(d, by);
    if (!first && d->refused && account >= d->refused_served && w->slots >= d->refused_slots) return true;
    return d->slots_most < w->slots + (first ? 1 : 2) && d->served_most < account + d->c->quantum;
}

static bool lacks_slot(const struct decision *d, const struct sched_req *r)
{
    return !d->slots || is_full_for(d, r);
}

/* Preempt requests until @r has a slot and enough blocks. False: this is impossible, and no request is preempted. */
static bool make_room(struct decision *d, const struct sched_req *r)
{
    uint32_t before = d->n_out;
    bool short_of_blocks = r->blocks > d->blocks;
    if (has_no_victim(d, r) || d->moved >= MOVES_MOST || (short_of_blocks && d->searched_blocks)) return false;
    d->searched_blocks |= short_of_blocks;
    while (lacks_slot(d, r) || r->blocks > d->blocks) {
        enum sched_reason reason = SCHED_START;
        uint32_t index = find_victim(d, r, r->blocks > d->blocks, &reason);
        if (index == SCHED_NONE) break;
        preempt(d, index, reason);
    }
    if (!lacks_slot(d, r) && r->blocks <= d->blocks) {
        d->moved += d->n_out - before;
        return true;
    }
    while (d->n_out > before) undo_preempt(d);
    if (!short_of_blocks && !is_full_for(d, r)) {
        d->refused = true;
        d->refused_slots = d->x.usage[r->user].slots;
        d->refused_served = d->s->users[r->user].served;
    }
    return false;
}

/* --- starts --- */

static void start(struct decision *d, uint32_t index)
{
    const struct sched_req *r = &d->s->reqs[index];
    struct sched_usage *w = &d->x.usage[r->user];
    add_action(d, index, SCHED_START);
    d->slots--;
    d->higher += sched_is_higher(r);
    d->blocks -= r->blocks;
    w->waiting--;
    w->expected += sched_expected_units(d->c, r, 0);
    w->firsts += is_first_token(d, r);
    if (++w->slots > d->slots_most) d->slots_most = w->slots;
    mark_progress(d, r, index);
}

/* Move the smallest of part[n] to the top. A full heap is built only for a user that starts more than one request. */
static void move_first_to_top(struct sched_usage *w, struct sched_item *part)
{
    if (w->heaped) return;
    uint32_t first = 0;
    for (uint32_t k = 1; k < w->n; k++)
        if (sched_item_less(&part[k], &part[first])) first = k;
    struct sched_item x = part[first];
    part[first] = part[0];
    part[0] = x;
}

/* The place of the user in the heap: by account, but those come first who have no slot and lack only a few tokens. */
static uint64_t place_of(const struct decision *d, uint32_t user)
{
    struct sched_usage *w = &d->x.usage[user];
    struct sched_item *part = d->x.items + w->first;
    uint64_t account = d->s->users[user].served + w->expected;
    if (w->slots || !w->n) return account + LATER;
    move_first_to_top(w, part);
    const struct sched_req *r = &d->s->reqs[part->index];
    return r->known - r->computed <= d->c->express_tokens ? account : account + LATER;
}

/* Build the heap of users with waiting requests. A user that starts to wait is raised to the floor. */
static void build_user_heap(struct decision *d)
{
    const struct sched_state *s = d->s;
    for (uint32_t u = 0; u < s->n_users; u++) {
        const struct sched_usage *w = &d->x.usage[u];
        if (!w->waiting) continue;
        if (!s->users[u].waited && s->users[u].served < d->b->floor) s->users[u].served = d->b->floor;
        d->x.user_heap[d->n_heap++] = (struct sched_item){place_of(d, u), w->slots, u};
    }
    sched_heap_make(d->x.user_heap, d->n_heap);
}

static void drop_first(struct sched_usage *w, struct sched_item *part)
{
    if (!w->heaped) sched_heap_make(part, w->n);
    w->heaped = true;
    w->n = sched_heap_pop(part, w->n);
}

/* Find the user's next request that can start; it is on top of @part. False: none. */
static bool next_request(struct decision *d, struct sched_usage *w, struct sched_item *part)
{
    move_first_to_top(w, part);
    while (w->n && is_shared(d, &d->s->reqs[part->index],
                             part->index)) { /* shared with a request that starts in this decision */
        drop_first(w, part);
        w->waiting--;
    }
    return w->n;
}

static void fill_slots(struct decision *d)
{
    struct sched_item *heap = d->x.user_heap;
    for (uint32_t starts = 0; d->n_heap && starts < STARTS_MOST;) {
        struct sched_usage *w = &d->x.usage[heap->index];
        struct sched_item *part = d->x.items + w->first;
        if (!next_request(d, w, part)) {
            d->n_heap = sched_heap_pop(heap, d->n_heap);
            continue;
        }
        const struct sched_req *r = &d->s->reqs[part->index];
        bool fits = r->blocks <= d->blocks;
        if ((lacks_slot(d, r) || !fits) && !make_room(d, r)) {
            if (!fits && d->b->clock - r->since >= d->c->patience)
                return; /* patience is over: no other request may start before this one */
            d->n_heap = sched_heap_pop(heap, d->n_heap);
            continue;
        }
        start(d, part->index);
        starts++;
        drop_first(w, part);
        heap->key = place_of(d, heap->index);
        heap->tie = w->slots;
        sched_heap_down(heap, d->n_heap, 0);
    }
}

/* Update the floor for the next decision. */
static void update_floor(struct decision *d, struct sched_book *b)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t u = 0; u < d->s->n_users; u++) {
        struct sched_user *user = &d->s->users[u];
        if (d->x.usage[u].slots && user->served > most) most = user->served;
        user->waited = d->x.usage[u].waiting > 0;
        if (user->waited && user->served < least) least = user->served;
    }
    if (least == UINT64_MAX) least = most;
    if (least > b->floor) b->floor = least;
}

uint32_t sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s, void *scratch,
                      struct sched_action *out)
{
    struct decision d = {.c = c, .b = b, .s = s, .out = out};
    d.x = sched_scratch_init(scratch, s->n, s->n_users);
    memset(d.x.usage, 0, s->n_users * sizeof(*d.x.usage));
    memset(d.x.progress, 0, s->n * sizeof(*d.x.progress));
    memset(d.x.done, 0, s->n * sizeof(*d.x.done));
    count_running(&d);
    count_waiting(&d);
    build_user_heap(&d);
    fill_slots(&d);
    update_floor(&d, b);
    return d.n_out;
}
