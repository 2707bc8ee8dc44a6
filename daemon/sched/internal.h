/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the scheduler: declarations that its files share. */
#include "daemon/sched/heap.h"
#include "daemon/sched/scheduler.h"

/* The state of a user during a decision or a step. */
struct sched_usage {
    uint64_t expected; /* units that its running requests are expected to receive */
    uint32_t slots;    /* number of running requests */
    uint32_t firsts;   /* of these, the ones that lack only a few tokens of their prompt */
    uint32_t waiting;  /* number of waiting requests that could run */
    uint32_t first;    /* start of its part of items */
    uint32_t n;        /* items left in its part */
    uint32_t turns;    /* decoded tokens in a short or express step */
    uint8_t lowest;    /* lowest class of its running requests */
    bool heaped;       /* its part is ordered as a heap */
};

struct sched_scratch {
    struct sched_item *items;     /* [n], grouped by user */
    struct sched_item *user_heap; /* [n_users] a heap of users */
    struct sched_usage *usage;    /* [n_users] */
    uint32_t *list;               /* [n] indices */
    bool *progress;               /* [n] for the index of a group: a running member will compute shared tokens */
    bool *done;                   /* [n] an action for the request is decided */
};

struct sched_scratch sched_scratch_init(void *memory, uint32_t n, uint32_t n_users);

/* The slots that count as the user's: one that is needed for a step or two does not. */
static inline uint32_t sched_kept(const struct sched_usage *w)
{
    return w->slots - (w->firsts > 0);
}

/* The order within a user: class, then arrival. */
static inline struct sched_item sched_item_of(const struct sched_req *r, uint32_t index)
{
    return (struct sched_item){.key = r->class, .tie = r->arrival, .index = index};
}

/* Is its class higher than batch? */
static inline bool sched_is_higher(const struct sched_req *r)
{
    return r->class < SCHED_CLASS_BATCH;
}

/* Does @r decode? A request that lacks more than its newest token, for example after a preemption, needs prefill first.
 */
static inline bool sched_decodes(const struct sched_req *r)
{
    return r->decoding && r->known - r->computed == 1;
}

/* Give each user a part of items with room for usage[].n items, and reset usage[].n to 0. */
void sched_partition(const struct sched_scratch *x, uint32_t n_users);

/* Units that @r is expected to receive in its slot: the rest of its prompt, at least the rest of its quantum. */
static inline uint64_t sched_expected_units(const struct sched_config *c, const struct sched_req *r, uint32_t spent)
{
    uint32_t prompt = (r->known - r->computed) * c->prefill_units,
             quantum = spent < c->quantum ? c->quantum - spent : 0;
    return prompt > quantum ? prompt : quantum;
}
