/* SPDX-License-Identifier: MIT */
/* The baseline policy: first come, first served. */
#include "daemon/simulate/sim-inside.h"

/* The first waiting request by arrival, if it fits. */
uint32_t sim_fcfs_decide(const struct sched_config *c, const struct sched_state *s, struct sched_action *out)
{
    uint32_t slots = c->parallel, free = s->free_blocks, n = 0;
    uint64_t after = 0;
    for (uint32_t i = 0; i < s->n; i++) slots -= s->reqs[i].running;
    for (; slots > 0; slots--) {
        uint32_t first = SCHED_NONE;
        for (uint32_t i = 0; i < s->n; i++) {
            const struct sched_req *r = &s->reqs[i];
            if (r->running || r->arrival <= after) continue;
            if (first == SCHED_NONE || r->arrival < s->reqs[first].arrival) first = i;
        }
        if (first == SCHED_NONE || s->reqs[first].blocks > free) break;
        after = s->reqs[first].arrival;
        free -= s->reqs[first].blocks;
        out[n++] = (struct sched_action){first, SCHED_START};
    }
    return n;
}

/* One token for each decoding request, then prompts by arrival, up to the tokens of a step. */
uint32_t sim_fcfs_step(const struct sched_config *c, const struct sched_state *s, struct sched_run *out)
{
    uint32_t tokens = c->batch_tokens, n = 0;
    for (uint32_t i = 0; i < s->n && tokens; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (!r->running || !r->decoding) continue;
        out[n++] = (struct sched_run){.index = i, .n = 1, .logits = true};
        tokens--;
    }
    for (uint64_t after = 0; tokens;) {
        uint32_t first = SCHED_NONE;
        for (uint32_t i = 0; i < s->n; i++) {
            const struct sched_req *r = &s->reqs[i];
            if (!r->running || r->decoding || r->arrival <= after) continue;
            if (first == SCHED_NONE || r->arrival < s->reqs[first].arrival) first = i;
        }
        if (first == SCHED_NONE) break;
        const struct sched_req *r = &s->reqs[first];
        uint32_t left = r->known - r->computed, take = left < tokens ? left : tokens;
        out[n++] = (struct sched_run){.index = first, .n = take, .logits = take == left};
        tokens -= take;
        after = r->arrival;
    }
    return n;
}
