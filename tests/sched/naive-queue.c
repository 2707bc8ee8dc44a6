/* SPDX-License-Identifier: MIT */
#include "tests/sched/naive.h"
#include <string.h>

#define FORGET_UNITS 64

static bool is_sooner(const struct sched_req *a, const struct sched_req *b)
{
    return a->class != b->class ? a->class < b->class : a->arrival < b->arrival;
}

/* --- the queue --- */

static uint64_t expected(const struct sched_config *c, const struct sched_req *r, uint32_t spent)
{
    uint64_t prompt = (uint64_t)(r->known - r->computed) * c->prefill_units;
    uint64_t rest = spent < c->quantum ? c->quantum - spent : 0;
    return prompt > rest ? prompt : rest;
}

void naive_positions(const struct sched_config *c, const struct sched_state *s, uint32_t *pos)
{
    uint64_t account[NAIVE_MOST] = {0};
    for (uint32_t i = 0; i < s->n; i++) { /* of its user when it starts */
        const struct sched_req *r = &s->reqs[i];
        account[i] = s->users[r->user].served;
        for (uint32_t k = 0; k < s->n; k++) {
            const struct sched_req *o = &s->reqs[k];
            if (o->user == r->user && o->running) account[i] += expected(c, o, o->spent);
            if (o->user == r->user && !o->running && k != i && is_sooner(o, r)) account[i] += expected(c, o, 0);
        }
    }
    for (uint32_t i = 0; i < s->n; i++) {
        pos[i] = !s->reqs[i].running;
        for (uint32_t k = 0; k < s->n; k++)
            if (!s->reqs[i].running && !s->reqs[k].running)
                pos[i] += account[k] != account[i] ? account[k] < account[i] : s->reqs[k].arrival < s->reqs[i].arrival;
    }
}

/* Of the requests of @user that never ran and whose class is below @class: the newest of the lowest class. */
static uint32_t find_lowest(const struct sched_state *s, const bool *preempted, uint32_t user, int class)
{
    uint32_t best = SCHED_NONE;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (r->running || preempted[i] || r->user != user || (int)r->class <= class) continue;
        if (best == SCHED_NONE || is_sooner(&s->reqs[best], r)) best = i;
    }
    return best == SCHED_NONE ? s->n : best;
}

uint32_t naive_refuse(const struct sched_state *s, const bool *preempted, uint32_t queue, uint32_t user,
                      enum sched_class class)
{
    uint32_t waiting[NAIVE_MOST] = {0}, all = 0, users = 0, most = user;
    for (uint32_t i = 0; i < s->n; i++) waiting[s->reqs[i].user] += !s->reqs[i].running && !preempted[i];
    for (uint32_t u = 0; u < s->n_users; u++) {
        all += waiting[u];
        users += waiting[u] || u == user;
        if (waiting[u] > waiting[most]) most = u;
    }
    if (all < queue) return SCHED_NONE;
    if (waiting[most] > waiting[user] && waiting[user] < queue / users) return find_lowest(s, preempted, most, -1);
    return find_lowest(s, preempted, user, (int)class);
}

/* --- after a step --- */

void naive_done(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                const struct sched_run *runs, uint32_t n, const struct sched_load *load)
{
    uint64_t least = UINT64_MAX;
    b->steps++;
    for (uint32_t i = 0; i < n; i++) {
        const struct sched_req *r = &s->reqs[runs[i].index];
        bool decodes = r->decoding && r->known == r->computed + 1;
        uint32_t units = runs[i].n * (decodes ? c->decode_units : c->prefill_units);
        s->users[r->user].served += units;
        b->clock += units;
        if (decodes) s->users[r->user].decoded = b->steps;
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (s->users[s->reqs[i].user].served < least) least = s->users[s->reqs[i].user].served;
    uint64_t units = b->clock - b->forgot;
    if (units >= FORGET_UNITS) {
        b->forgot = b->clock;
        double part = units < c->forget ? (double)units : c->forget;
        for (uint32_t u = 0; u < s->n_users; u++) {
            uint64_t *served = &s->users[u].served;
            if (*served > least) *served -= (uint64_t)((double)(*served - least) * part / c->forget);
        }
    }
    if (load->due) b->due_step = b->steps;
    b->express = load->express;
    b->short_left = load->express ? c->short_steps : b->short_left ? b->short_left - 1 : 0;
    b->untried = load->draft ? 0 : b->untried + load->untried;
    if (!load->express) b->since_prefill = load->no_prefill ? b->since_prefill + 1 : 0;
}
