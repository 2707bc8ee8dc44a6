/* SPDX-License-Identifier: MIT */
/* Slots: who starts, who is preempted. */
#include "daemon/sched/internal.h"
#include <string.h>

#define HOPS_MOST   8
#define STARTS_MOST 64 /* in one decision; there is one before every step */
#define MOVES_MOST  4  /* slots that change hands in one */

struct decision {
    const struct sched_config *c;
    const struct sched_book *b;
    const struct sched_state *s;
    struct sched_scratch x;
    struct sched_action *out;
    uint32_t n_out, n_line;
    uint32_t n_running, n_waiting; /* x.list: running from its beginning, waiting from its end */
    uint32_t moved;                /* slots that changed hands */
    uint32_t slots, blocks;        /* to be had */
    uint32_t slots_most;           /* that a user has */
    uint64_t served_most;          /* of the users that run something */
    bool slow;                     /* there is a reader that is to yield */
    bool tight;                    /* not all who wait fit into memory: a victim may lose what it has computed */
    bool refused;                  /* a user with so many slots and units got no slot from anybody */
    uint32_t refused_slots;
    uint64_t refused_served;
    bool asked_blocks; /* somebody's blocks were asked for: a long search, once per decision */
};

/* --- small things --- */

static void act(struct decision *d, uint32_t index, enum sched_why why)
{
    d->out[d->n_out++] = (struct sched_action){index, why};
    d->x.done[index] = true;
}

/* --- what there is --- */

/* @r runs: what it has in common with its group is under way, unless it is past that, or stands still. */
static void mark_progress(const struct decision *d, const struct sched_req *r, uint32_t index)
{
    uint32_t *progress = d->x.progress, left = r->known - r->computed;
    if (r->paused || left <= 1) return;
    if (left > progress[index]) progress[index] = left;
    if (r->group != SCHED_NONE && r->shared > progress[r->group]) progress[r->group] = r->shared;
}

/* Somebody else is computing what it would compute, or is the one to do so. */
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

static void count_running(struct decision *d)
{
    const struct sched_state *s = d->s;
    d->slots = d->c->parallel;
    d->blocks = s->free_blocks;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (!r->running) {
            if (!r->paused) d->x.list[s->n - ++d->n_waiting] = i;
            continue;
        }
        struct sched_who *w = &d->x.who[r->user];
        d->x.list[d->n_running++] = i;
        w->ahead += sched_ahead(d->c, r, r->spent);
        if (++w->slots > d->slots_most) d->slots_most = w->slots;
        if (r->class > w->lowest) w->lowest = r->class;
        d->slow |= is_slow(d, r);
        if (s->users[r->user].served > d->served_most) d->served_most = s->users[r->user].served;
        if (d->slots) d->slots--;
        mark_progress(d, r, i);
    }
}

static void count_waiting(struct decision *d)
{
    const struct sched_state *s = d->s;
    uint32_t *list = d->x.list + s->n - d->n_waiting, n = 0;
    uint64_t wanted = 0;
    for (uint32_t k = 0; k < d->n_waiting; k++) {
        const struct sched_req *r = &s->reqs[list[k]];
        if (is_shared(d, r, list[k])) continue;
        d->x.who[r->user].n++;
        list[n++] = list[k];
    }
    for (uint32_t u = 0; u < s->n_users; u++) d->x.who[u].waiting = d->x.who[u].n;
    sched_parts(&d->x, s->n_users);
    for (uint32_t k = 0; k < n; k++) {
        const struct sched_req *r = &s->reqs[list[k]];
        struct sched_who *w = &d->x.who[r->user];
        d->x.items[w->first + w->n++] = sched_item_of(r, list[k]);
        wanted += r->blocks;
    }
    d->tight = wanted > s->free_blocks;
}

/* The users who wait, the least entitled last. Who comes to wait is raised to the floor. */
static void line_up(struct decision *d)
{
    const struct sched_state *s = d->s;
    for (uint32_t u = 0; u < s->n_users; u++) {
        const struct sched_who *w = &d->x.who[u];
        if (!w->waiting) continue;
        if (!s->users[u].waited && s->users[u].served < d->b->floor) s->users[u].served = d->b->floor;
        d->x.line[d->n_line++] = (struct sched_item){s->users[u].served + w->ahead, w->slots, u};
    }
    sched_heap_make(d->x.line, d->n_line);
}

/* --- victims --- */

/* It has had its turn: one that was worth what it may lose. */
static bool is_quantum_over(const struct decision *d, const struct sched_req *r)
{
    return r->spent >= d->c->quantum + (d->tight ? SCHED_WORTH * (uint64_t)r->computed : 0);
}

/* All but the last tokens of its prompt are there: it needs a slot for a step or two. */
static bool is_first_token(const struct decision *d, const struct sched_req *r)
{
    return !r->decoding && r->known - r->computed <= d->c->express_tokens;
}

/* @by, which waits for a first token, may have the slot of @r: it gives it back before its user's account is far ahead.
 */
static bool gives_way(const struct decision *d, const struct sched_req *r, const struct sched_req *by)
{
    return is_first_token(d, by) && !is_first_token(d, r) && d->x.who[r->user].slots > d->x.who[by->user].slots &&
           d->s->users[r->user].served + d->c->quantum >= d->s->users[by->user].served;
}

/* The reason for which running @r may be preempted for @by; SCHED_START: none. */
static enum sched_why entitled(const struct decision *d, const struct sched_req *r, const struct sched_req *by)
{
    const struct sched_who *mine = &d->x.who[by->user], *its = &d->x.who[r->user];
    uint64_t i_had = d->s->users[by->user].served, it_had = d->s->users[r->user].served;
    if (is_slow(d, r)) return SCHED_YIELD;
    if (r->user == by->user) return r->class > by->class ? SCHED_CLASS : SCHED_START;
    if (it_had >= i_had + d->c->quantum && is_quantum_over(d, r)) return SCHED_QUANTUM;
    if (it_had >= i_had && its->slots >= mine->slots + 2) return SCHED_EVEN;
    if (gives_way(d, r, by)) return SCHED_EVEN;
    return SCHED_START;
}

/* Is @a, for @why_a, a better victim than @b? Slow readers first, then one's own, then the most served user's; of
 * these the lowest class, the last to arrive. */
static bool worse(const struct decision *d, const struct sched_req *a, enum sched_why why_a, const struct sched_req *b,
                  enum sched_why why_b)
{
    bool other_a = why_a > SCHED_CLASS, other_b = why_b > SCHED_CLASS;
    if ((why_a == SCHED_YIELD) != (why_b == SCHED_YIELD)) return why_a == SCHED_YIELD;
    if (why_a == SCHED_YIELD && a->paused_ms != b->paused_ms) return a->paused_ms < b->paused_ms;
    if (other_a != other_b) return other_b;
    uint64_t had_a = d->s->users[a->user].served, had_b = d->s->users[b->user].served;
    if (other_a && had_a != had_b) return had_a > had_b;
    if (a->class != b->class) return a->class > b->class;
    return a->arrival > b->arrival;
}

/* The best victim for @by, or SCHED_NONE. @blocks: one that has some. */
static uint32_t find_victim(const struct decision *d, const struct sched_req *by, bool blocks, enum sched_why *why)
{
    uint32_t best = SCHED_NONE;
    for (uint32_t k = 0; k < d->n_running; k++) {
        uint32_t i = d->x.list[k];
        const struct sched_req *r = &d->s->reqs[i];
        if (d->x.done[i] || (blocks && !r->blocks)) continue;
        enum sched_why w = entitled(d, r, by);
        if (w == SCHED_START) continue;
        if (best != SCHED_NONE && !worse(d, r, w, &d->s->reqs[best], *why)) continue;
        best = i;
        *why = w;
    }
    return best;
}

static void preempt(struct decision *d, uint32_t index, enum sched_why why)
{
    const struct sched_req *r = &d->s->reqs[index];
    struct sched_who *w = &d->x.who[r->user];
    act(d, index, why);
    w->slots--;
    w->ahead -= sched_ahead(d->c, r, r->spent);
    if (!r->paused) w->waiting++; /* but not in this decision */
    d->slots++;
    d->blocks += r->blocks;
}

/* It was no use. */
static void take_back(struct decision *d)
{
    uint32_t index = d->out[--d->n_out].index;
    const struct sched_req *r = &d->s->reqs[index];
    struct sched_who *w = &d->x.who[r->user];
    d->x.done[index] = false;
    w->slots++;
    w->ahead += sched_ahead(d->c, r, r->spent);
    if (!r->paused) w->waiting--;
    d->slots--;
    d->blocks -= r->blocks;
}

/* Nobody gives @by a slot: told without looking at them all. */
static bool is_hopeless(const struct decision *d, const struct sched_req *by)
{
    const struct sched_who *w = &d->x.who[by->user];
    uint64_t had = d->s->users[by->user].served;
    if (d->slow || (w->slots && w->lowest > by->class)) return false;
    bool first = is_first_token(d, by);
    if (!first && d->refused && had >= d->refused_served && w->slots >= d->refused_slots) return true;
    return d->slots_most < w->slots + (first ? 1 : 2) && d->served_most < had + d->c->quantum;
}

/* A slot and blocks for @r from those who must give way to it; or nobody gives way. */
static bool make_room(struct decision *d, const struct sched_req *r)
{
    uint32_t before = d->n_out;
    bool short_of_blocks = r->blocks > d->blocks;
    if (is_hopeless(d, r) || d->moved >= MOVES_MOST || (short_of_blocks && d->asked_blocks)) return false;
    d->asked_blocks |= short_of_blocks;
    while (!d->slots || r->blocks > d->blocks) {
        enum sched_why why = SCHED_START;
        uint32_t index = find_victim(d, r, r->blocks > d->blocks, &why);
        if (index == SCHED_NONE) break;
        preempt(d, index, why);
    }
    if (d->slots && r->blocks <= d->blocks) {
        d->moved += d->n_out - before;
        return true;
    }
    while (d->n_out > before) take_back(d);
    if (!short_of_blocks) {
        d->refused = true;
        d->refused_slots = d->x.who[r->user].slots;
        d->refused_served = d->s->users[r->user].served;
    }
    return false;
}

/* Overcommit: the next step's blocks come first, from the least entitled; one always goes on. */
static void grow(struct decision *d)
{
    const struct sched_req *reqs = d->s->reqs;
    uint64_t wanted = 0;
    uint32_t running = d->n_running;
    for (uint32_t k = 0; k < d->n_running; k++) wanted += reqs[d->x.list[k]].grow;
    for (; wanted > d->blocks && running > 1; running--) {
        uint32_t best = SCHED_NONE;
        for (uint32_t k = 0; k < d->n_running; k++) {
            uint32_t i = d->x.list[k];
            if (d->x.done[i]) continue;
            if (best == SCHED_NONE || worse(d, &reqs[i], SCHED_BLOCKS, &reqs[best], SCHED_BLOCKS)) best = i;
        }
        preempt(d, best, SCHED_BLOCKS);
        wanted -= reqs[best].grow;
    }
    d->blocks = wanted < d->blocks ? d->blocks - (uint32_t)wanted : 0;
}

/* --- who starts --- */

static void start(struct decision *d, uint32_t index)
{
    const struct sched_req *r = &d->s->reqs[index];
    struct sched_who *w = &d->x.who[r->user];
    act(d, index, SCHED_START);
    d->slots--;
    d->blocks -= r->blocks;
    w->waiting--;
    w->ahead += sched_ahead(d->c, r, 0);
    if (++w->slots > d->slots_most) d->slots_most = w->slots;
    mark_progress(d, r, index);
}

/* Bring the first of part[n] to the top: a heap is made only for who starts more than one. */
static void bring_first(struct sched_who *w, struct sched_item *part)
{
    if (w->heaped) return;
    uint32_t first = 0;
    for (uint32_t k = 1; k < w->n; k++)
        if (sched_item_less(&part[k], &part[first])) first = k;
    struct sched_item x = part[first];
    part[first] = part[0];
    part[0] = x;
}

static void drop_first(struct sched_who *w, struct sched_item *part)
{
    if (!w->heaped) sched_heap_make(part, w->n);
    w->heaped = true;
    w->n = sched_heap_pop(part, w->n);
}

/* The user's first request that still can start, on top of its items; false: none is left. */
static bool next_of(struct decision *d, struct sched_who *w, struct sched_item *part)
{
    bring_first(w, part);
    while (w->n && is_shared(d, &d->s->reqs[part->index], part->index)) { /* by one that starts now */
        drop_first(w, part);
        w->waiting--;
    }
    return w->n;
}

static void fill_slots(struct decision *d)
{
    struct sched_item *line = d->x.line;
    for (uint32_t starts = 0; d->n_line && starts < STARTS_MOST;) {
        struct sched_who *w = &d->x.who[line->index];
        struct sched_item *part = d->x.items + w->first;
        if (!next_of(d, w, part)) {
            d->n_line = sched_heap_pop(line, d->n_line);
            continue;
        }
        const struct sched_req *r = &d->s->reqs[part->index];
        bool fits = r->blocks <= d->blocks;
        if ((!d->slots || !fits) && !make_room(d, r)) {
            if (!fits && d->b->clock - r->since >= d->c->patience) return; /* nobody passes it any more */
            d->n_line = sched_heap_pop(line, d->n_line);
            continue;
        }
        start(d, part->index);
        starts++;
        drop_first(w, part);
        line->key = d->s->users[line->index].served + w->ahead;
        line->tie = w->slots;
        sched_heap_down(line, d->n_line, 0);
    }
}

/* What absence is raised to from now on. */
static void settle_accounts(struct decision *d, struct sched_book *b)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t u = 0; u < d->s->n_users; u++) {
        struct sched_user *user = &d->s->users[u];
        if (d->x.who[u].slots && user->served > most) most = user->served;
        user->waited = d->x.who[u].waiting > 0;
        if (user->waited && user->served < least) least = user->served;
    }
    if (least == UINT64_MAX) least = most;
    if (least > b->floor) b->floor = least;
}

uint32_t sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s, void *scratch,
                      struct sched_action *out)
{
    struct decision d = {.c = c, .b = b, .s = s, .out = out};
    d.x = sched_scratch_cut(scratch, s->n, s->n_users);
    memset(d.x.who, 0, s->n_users * sizeof(*d.x.who));
    memset(d.x.progress, 0, s->n * sizeof(*d.x.progress));
    memset(d.x.done, 0, s->n * sizeof(*d.x.done));
    count_running(&d);
    grow(&d);
    count_waiting(&d);
    line_up(&d);
    fill_slots(&d);
    settle_accounts(&d, b);
    return d.n_out;
}
