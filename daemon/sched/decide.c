/* SPDX-License-Identifier: MIT */
/* Decides which requests start. preempt.c decides which are preempted for them. */
#include "daemon/sched/decision.h"
#include <string.h>

#define HOPS_MOST   8
#define STARTS_MOST 64 /* maximum starts in one decision; the next decision follows before the next step */
#define LATER       (UINT64_C(1) << 62) /* above all accounts */

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

/* The slots while all requests are of class batch. @positions: those of @n requests together. A step that decodes a
 * token of each request takes at most config.step_ms, unless so few are slots in any case. */
static uint32_t batch_slots(const struct decision *d, uint64_t positions, uint32_t n)
{
    const struct sched_config *c = d->c;
    uint32_t least = c->parallel_batch, most = c->parallel_most;
    if (!d->b->time.samples || !n) return least;
    while (least < most) {
        const uint32_t middle = most - (most - least) / 2;
        const struct sched_load all = {.decode = middle, .decode_kv = (double)positions / n * middle / 1000};
        if (sched_time_of(&d->b->time, &all) <= c->step_ms)
            least = middle;
        else
            most = middle - 1;
    }
    return least;
}

static void count_running(struct decision *d)
{
    const struct sched_state *s = d->s;
    bool waits = false;     /* one of a higher class than batch */
    uint64_t positions = 0; /* of all requests that run or wait */
    d->blocks = s->free_blocks;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (!r->running && r->paused) continue;
        positions += r->known;
        if (!r->running) {
            d->x.list[s->n - ++d->n_waiting] = i;
            waits |= sched_is_higher(r);
            continue;
        }
        struct sched_usage *w = &d->x.usage[r->user];
        d->x.list[d->n_running++] = i;
        w->expected += sched_expected_units(d->c, r, r->spent);
        w->firsts += decision_is_first_token(d, r);
        d->higher += sched_is_higher(r);
        if (++w->slots > d->slots_most) d->slots_most = w->slots;
        if (r->class > w->lowest) w->lowest = r->class;
        d->slow |= decision_is_slow(d, r);
        if (s->users[r->user].served > d->served_most) d->served_most = s->users[r->user].served;
        mark_progress(d, r, i);
    }
    const bool higher = waits || d->higher;
    const uint32_t all = higher ? d->c->parallel : batch_slots(d, positions, d->n_running + d->n_waiting);
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

/* --- starts --- */

static void start(struct decision *d, uint32_t index)
{
    const struct sched_req *r = &d->s->reqs[index];
    struct sched_usage *w = &d->x.usage[r->user];
    decision_add(d, index, SCHED_START);
    d->slots--;
    d->higher += sched_is_higher(r);
    d->blocks -= r->blocks;
    w->waiting--;
    w->expected += sched_expected_units(d->c, r, 0);
    w->firsts += decision_is_first_token(d, r);
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
        if ((decision_lacks_slot(d, r) || !fits) && !decision_make_room(d, r)) {
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
