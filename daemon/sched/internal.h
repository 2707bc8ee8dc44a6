/* SPDX-License-Identifier: MIT */
#pragma once
/* Inside the scheduler: what its files share. */
#include "daemon/sched/heap.h"
#include "daemon/sched/scheduler.h"

/* What a user has, as a decision or a step goes on. */
struct sched_who {
    uint64_t ahead;   /* units that its running requests are sure to get */
    uint32_t slots;   /* running */
    uint32_t waiting; /* that wait and could run */
    uint32_t first;   /* its part of items */
    uint32_t n;       /* items left in it */
    uint8_t lowest;   /* class among its running ones */
    bool heaped;      /* its part is a heap */
};

struct sched_scratch {
    struct sched_item *items; /* [n], by user */
    struct sched_item *line;  /* [n_users] a heap of users */
    struct sched_who *who;    /* [n_users] */
    uint32_t *progress;       /* [n] of a group: tokens in common that a running member is still to compute */
    uint32_t *list;           /* [n] indices */
    bool *done;               /* [n] an action was decided for it */
};

struct sched_scratch sched_scratch_cut(void *memory, uint32_t n, uint32_t n_users);

/* Within a user: class, then arrival. */
static inline struct sched_item sched_item_of(const struct sched_req *r, uint32_t index)
{
    return (struct sched_item){.key = r->class, .tie = r->arrival, .index = index};
}

/* Give each user its part of items: who[].n are counts; they become 0, to be filled. */
void sched_parts(const struct sched_scratch *x, uint32_t n_users);

/* Units that @r is sure to get in its slot: what is left of its prompt, at least of its quantum. */
static inline uint64_t sched_ahead(const struct sched_config *c, const struct sched_req *r, uint32_t spent)
{
    uint32_t prompt = (r->known - r->computed) * c->prefill_units,
             quantum = spent < c->quantum ? c->quantum - spent : 0;
    return prompt > quantum ? prompt : quantum;
}
