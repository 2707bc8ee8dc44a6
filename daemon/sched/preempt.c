/* SPDX-License-Identifier: MIT */
/* Decides which running requests give their slots and blocks to a request that waits. */
#include "daemon/sched/decision.h"

#define MOVES_MOST 4 /* maximum preemptions in one decision, except for blocks */

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
    return decision_is_first_token(d, by) && (!decision_is_first_token(d, r) || r_usage->firsts > 1) &&
           kept > by_usage->slots && (kept > 1 || d->slots_most < by_usage->slots + 2) &&
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
    if (decision_is_slow(d, r)) return SCHED_YIELD;
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
        if (d->x.done[i] || (blocks && !r->blocks) || (!sched_is_higher(r) && decision_is_full_for(d, by))) continue;
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
    decision_add(d, index, reason);
    w->slots--;
    w->firsts -= decision_is_first_token(d, r);
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
    w->firsts += decision_is_first_token(d, r);
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
    bool first = decision_is_first_token(d, by);
    if (!first && d->refused && account >= d->refused_served && w->slots >= d->refused_slots) return true;
    return d->slots_most < w->slots + (first ? 1 : 2) && d->served_most < account + d->c->quantum;
}

bool decision_make_room(struct decision *d, const struct sched_req *r)
{
    uint32_t before = d->n_out;
    bool short_of_blocks = r->blocks > d->blocks;
    if (has_no_victim(d, r) || d->moved >= MOVES_MOST || (short_of_blocks && d->searched_blocks)) return false;
    d->searched_blocks |= short_of_blocks;
    while (decision_lacks_slot(d, r) || r->blocks > d->blocks) {
        enum sched_reason reason = SCHED_START;
        uint32_t index = find_victim(d, r, r->blocks > d->blocks, &reason);
        if (index == SCHED_NONE) break;
        preempt(d, index, reason);
    }
    if (!decision_lacks_slot(d, r) && r->blocks <= d->blocks) {
        d->moved += d->n_out - before;
        return true;
    }
    while (d->n_out > before) undo_preempt(d);
    if (!short_of_blocks && !decision_is_full_for(d, r)) {
        d->refused = true;
        d->refused_slots = d->x.usage[r->user].slots;
        d->refused_served = d->s->users[r->user].served;
    }
    return false;
}
