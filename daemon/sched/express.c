/* SPDX-License-Identifier: MIT */
/* Express steps: first tokens that do not wait for a long batch. */
#include "daemon/sched/batch.h"
#include <string.h>

#define TURNS_LEAST  2   /* decoded tokens of an express step, if requests decode */
#define EXPRESS_GAIN 1.5 /* an express step must be shorter by at least this factor, unless others are short too */

double sched_some_ms(const struct step *t, double ratio)
{
    const struct sched_load *all = t->load;
    const struct sched_load one = {.decode = 1, .decode_kv = all->decode ? all->decode_kv / all->decode : 0};
    return ratio * sched_time_of(&t->b->time, &one);
}

static bool is_express(const struct step *t, const struct sched_req *r)
{
    uint32_t left = r->known - r->computed;
    return sched_is_ready(r) && !r->decoding && left <= t->c->express_tokens && left == sched_next_of(r);
}

/* The smallest account of the users with tokens to compute. */
static uint64_t least_served(const struct step *t)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < t->s->n; i++) {
        uint64_t served = t->s->users[t->s->reqs[i].user].served;
        if (sched_is_ready(&t->s->reqs[i]) && served < least) least = served;
    }
    return least;
}

/* Choose first tokens of users whose account is at most @most or who have no answer that runs, those first that lack
 * the fewest tokens, as many as @most_ms allow and at least one, or a part of its prompt. Returns their load. */
static struct sched_load choose_first(struct step *t, bool *chosen, uint64_t most, double most_ms)
{
    const struct sched_state *s = t->s;
    struct sched_item *heap = t->x.items;
    struct sched_load load = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) t->x.usage[s->reqs[i].user].slots += s->reqs[i].running && s->reqs[i].decoding;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        chosen[i] = false;
        if (is_express(t, r) && (s->users[r->user].served <= most || !t->x.usage[r->user].slots))
            heap[n++] = (struct sched_item){r->known - r->computed, r->arrival, i};
    }
    t->part = SCHED_NONE;
    for (sched_heap_make(heap, n); n; n = sched_heap_pop(heap, n)) {
        struct sched_load more = load;
        more.prefill += (uint32_t)heap->key;
        if (more.prefill > t->c->batch_tokens) break;
        bool is_long = sched_time_of(&t->b->time, &more) > most_ms;
        if (is_long && load.prefill) break;
        if (is_long && heap->key > t->c->express_part && !s->reqs[heap->index].whole) {
            more.prefill = t->c->express_part;
            t->part = heap->index;
        }
        load = more;
        chosen[heap->index] = true;
    }
    return load;
}

/* Choose decode tokens of users whose account is at most @most: of each user in turn, as many as @most_ms allow and at
 * least TURNS_LEAST. */
static void choose_turns(struct step *t, bool *chosen, uint64_t most, double most_ms, struct sched_load *load)
{
    const struct sched_state *s = t->s;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (sched_is_ready(r) && sched_decodes(r) && s->users[r->user].served <= most)
            t->x.items[n++] = (struct sched_item){r->last_step, r->arrival, i};
    }
    for (uint32_t i = 0; i < n; i++) {
        struct sched_load more = *load;
        more.decode++;
        if (more.prefill + more.decode > t->c->batch_tokens) return;
        if (i >= TURNS_LEAST && sched_time_of(&t->b->time, &more) > most_ms) return;
        *load = more;
        sched_next_turn(t, i, n);
        chosen[t->x.items[i].index] = true;
    }
}

void sched_express(struct step *t)
{
    bool *chosen = t->x.done;
    uint64_t most = least_served(t) + t->c->express_lead;
    double most_ms = sched_some_ms(t, t->c->express_ratio), all = sched_time_of(&t->b->time, t->load);
    memset(t->x.usage, 0, t->s->n_users * sizeof(*t->x.usage));
    struct sched_load load = choose_first(t, chosen, most, most_ms);
    if (!load.prefill) return;
    choose_turns(t, chosen, most, most_ms, &load);
    bool is_short = t->b->short_left && all > sched_some_ms(t, t->c->short_ratio);
    double gain = is_short ? 1 : EXPRESS_GAIN;
    if (gain * sched_time_of(&t->b->time, &load) > all) return;
    *t->load = (struct sched_load){.express = true};
    t->n_out = 0;
    for (uint32_t i = 0; i < t->s->n; i++) {
        const struct sched_req *r = &t->s->reqs[i];
        if (chosen[i]) sched_batch_add(t, i, i == t->part ? t->c->express_part : r->known - r->computed);
    }
}
