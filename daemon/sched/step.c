/* SPDX-License-Identifier: MIT */
/* Fills the batch of a step. */
#include "daemon/sched/batch.h"
#include <math.h>
#include <string.h>

#define CLASS_SHIFT 62 /* of the class in the key of an item, above the number of a step */

void sched_batch_add(struct step *t, uint32_t index, uint32_t n)
{
    const struct sched_req *r = &t->s->reqs[index];
    t->out[t->n_out++] = (struct sched_run){.index = index, .n = n, .logits = r->computed + n == r->known};
    *(sched_decodes(r) ? &t->load->decode : &t->load->prefill) += n;
    *(sched_decodes(r) ? &t->load->decode_kv : &t->load->prefill_kv) += sched_pairs(r->computed, n);
}

/* --- decoding --- */

/* Move the @k smallest of items[n] to the front (Hoare's selection). */
static void select_first(struct sched_item *items, uint32_t n, uint32_t k)
{
    uint32_t from = 0, to = n;
    while (to - from > 1 && k > from && k < to) {
        struct sched_item pivot = items[from + (to - from - 1) / 2];
        uint32_t i = from, j = to - 1;
        for (;;) {
            while (sched_item_less(&items[i], &pivot)) i++;
            while (sched_item_less(&pivot, &items[j])) j--;
            if (i >= j) break;
            struct sched_item x = items[i];
            items[i++] = items[j];
            items[j--] = x;
        }
        if (k <= j + 1)
            to = j + 1;
        else
            from = j + 1;
    }
}

/* Count the ready requests, and collect those that decode in items. */
static void gather(struct step *t)
{
    for (uint32_t i = 0; i < t->s->n; i++) {
        const struct sched_req *r = &t->s->reqs[i];
        if (!sched_is_ready(r)) continue;
        if (t->n_decode + t->n_prefill == 0) t->user = r->user;
        t->shared |= r->user != t->user;
        t->higher |= sched_is_higher(r);
        uint64_t served = t->s->users[r->user].served;
        if (sched_decodes(r)) {
            t->x.items[t->n_decode++] = (struct sched_item){r->last_step, r->arrival, i};
            if (served < t->least_decode) t->least_decode = served;
        } else {
            t->n_prefill++;
            if (served > t->most_prefill) t->most_prefill = served;
        }
    }
}

/* The tokens of the stretch that is due; 0: none is. */
static uint32_t due_tokens(const struct step *t)
{
    return t->due == SCHED_NONE ? 0 : sched_next_of(&t->s->reqs[t->due]);
}

/* Move @n of the decoding requests to the front of items: of each user in turn, the higher class first. */
static void select_turns(struct step *t, uint32_t n)
{
    memset(t->x.usage, 0, t->s->n_users * sizeof(*t->x.usage));
    for (uint32_t i = 0; i < t->n_decode; i++)
        t->x.items[i].key |= (uint64_t)t->s->reqs[t->x.items[i].index].class << CLASS_SHIFT;
    for (uint32_t i = 0; i < n; i++) sched_next_turn(t, i, t->n_decode);
}

static void decode(struct step *t, bool forced_prefill)
{
    const struct sched_config *c = t->c;
    uint32_t room = c->batch_tokens, n = t->n_decode, kept = due_tokens(t);
    if (forced_prefill && kept < c->prefill_due) kept = c->prefill_due;
    room -= kept < room ? kept : room;
    if (t->higher && n > c->parallel) {
        n = c->parallel < room ? c->parallel : room;
        select_turns(t, n);
    } else if (n > room) {
        select_first(t->x.items, n, room);
        n = room;
    }
    for (uint32_t i = 0; i < n; i++) sched_batch_add(t, t->x.items[i].index, 1);
    t->tokens = c->batch_tokens - n;
}

/* --- prefill --- */

static bool needs_prefill(const struct sched_req *r)
{
    return sched_is_ready(r) && !sched_decodes(r);
}

/* Is the turn of @a before that of @b? As in prefill(). */
static bool is_before(const struct step *t, const struct sched_req *a, const struct sched_req *b)
{
    const uint64_t x = t->s->users[a->user].served, y = t->s->users[b->user].served;
    const struct sched_item i = {x, a->user, 0}, j = {y, b->user, 0}, k = sched_item_of(a, 0), l = sched_item_of(b, 0);
    return a->user != b->user ? sched_item_less(&i, &j) : sched_item_less(&k, &l);
}

static void choose_due(struct step *t)
{
    t->due = SCHED_NONE;
    if (t->b->steps - t->b->due_step < t->c->prefill_gap) return;
    for (uint32_t i = 0; i < t->s->n; i++) {
        const struct sched_req *r = &t->s->reqs[i];
        if (!r->whole || !needs_prefill(r) || sched_next_of(r) > t->c->batch_tokens) continue;
        if (t->due == SCHED_NONE || is_before(t, r, &t->s->reqs[t->due])) t->due = i;
    }
}

static bool has_whole(const struct step *t)
{
    for (uint32_t i = 0; i < t->n_out; i++)
        if (t->s->reqs[t->out[i].index].whole) return true;
    return false;
}

/* Without the request that is due, which is in the step already. */
static void group_by_user(struct step *t)
{
    const struct sched_state *s = t->s;
    struct sched_usage *usage = t->x.usage;
    memset(usage, 0, s->n_users * sizeof(*usage));
    for (uint32_t i = 0; i < s->n; i++)
        if (needs_prefill(&s->reqs[i]) && i != t->due) usage[s->reqs[i].user].n++;
    sched_partition(&t->x, s->n_users);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (!needs_prefill(r) || i == t->due) continue;
        struct sched_usage *w = &usage[r->user];
        t->x.items[w->first + w->n++] = sched_item_of(r, i);
    }
}

/* The number of tokens of @r that fit into the step; 0: none. */
static uint32_t chunk(const struct step *t, const struct sched_req *r, bool forced)
{
    uint32_t left = sched_next_of(r), most = left < t->tokens ? left : t->tokens, n = most;
    if (t->limited) n = sched_time_prefill(&t->b->time, r->computed, t->ms, most);
    if (r->whole) return n < left ? 0 : n;
    if (n < most && n < t->c->prefill_min) {
        if (!forced) return 0;
        n = most < t->c->prefill_due ? most : t->c->prefill_due;
    }
    return n;
}

/* The time of a step that decodes one average token. */
static double time_of_one(const struct step *t)
{
    const struct sched_load one = {.decode = 1, .decode_kv = t->load->decode_kv / t->load->decode};
    return sched_time_of(&t->b->time, &one);
}

static void set_limit(struct step *t)
{
    const struct sched_config *c = t->c;
    double alone = sched_time_of(&t->b->time, t->load);
    double most = fmax(c->step_ms, c->step_least * alone);
    if (t->higher) most = fmin(most, c->step_ratio * alone);
    t->limited = t->load->decode && t->b->time.samples > 0 && !t->is_short;
    if (t->shared && t->limited) {
        bool behind = t->most_prefill >= t->least_decode + c->quantum;
        const struct sched_limit *x = behind ? &c->behind : &c->shared;
        most = fmin(most, fmax(x->ratio * time_of_one(t), x->least * alone));
    }
    t->ms = most - alone;
}

static void take(struct step *t, uint32_t index, uint32_t n)
{
    double before = sched_time_of(&t->b->time, t->load);
    sched_batch_add(t, index, n);
    t->ms -= sched_time_of(&t->b->time, t->load) - before;
    t->tokens -= n;
}

/* Take the stretch that is due. */
static void take_due(struct step *t)
{
    if (t->due == SCHED_NONE) return;
    take(t, t->due, due_tokens(t));
    t->load->due = true;
}

/* The users who need prefill as a heap, the smallest account on top. Returns their number. */
static uint32_t order_users(struct step *t)
{
    struct sched_item *heap = t->x.user_heap;
    uint32_t n = 0, due_user = t->due == SCHED_NONE ? SCHED_NONE : t->s->reqs[t->due].user;
    for (uint32_t u = 0; u < t->s->n_users; u++) {
        uint64_t due = u == due_user ? due_tokens(t) * t->c->prefill_units : 0;
        if (t->x.usage[u].n) heap[n++] = (struct sched_item){t->s->users[u].served + due, u, u};
    }
    sched_heap_make(heap, n);
    return n;
}

static void prefill(struct step *t, bool forced)
{
    struct sched_item *heap = t->x.user_heap;
    group_by_user(t);
    uint32_t n_heap = order_users(t);
    set_limit(t);
    take_due(t);
    forced = forced && t->due == SCHED_NONE;
    while (n_heap && t->tokens) {
        struct sched_usage *w = &t->x.usage[heap->index];
        struct sched_item *part = t->x.items + w->first;
        if (!w->heaped) sched_heap_make(part, w->n);
        w->heaped = true;
        const struct sched_req *r = &t->s->reqs[part->index];
        uint32_t n = chunk(t, r, forced);
        if (n == 0 && !r->whole) return; /* the step is complete */
        if (n) {
            take(t, part->index, n);
            forced = false;
        }
        w->n = sched_heap_pop(part, w->n);
        heap->key += n * t->c->prefill_units;
        if (w->n == 0)
            n_heap = sched_heap_pop(heap, n_heap);
        else
            sched_heap_down(heap, n_heap, 0);
    }
}

/* --- short steps --- */

static bool is_turn_before(const struct step *t, const struct sched_item *a, const struct sched_item *b)
{
    uint32_t user_a = t->s->reqs[a->index].user, user_b = t->s->reqs[b->index].user;
    uint32_t turns_a = t->x.usage[user_a].turns, turns_b = t->x.usage[user_b].turns;
    uint64_t decoded_a = t->s->users[user_a].decoded, decoded_b = t->s->users[user_b].decoded;
    if (turns_a != turns_b) return turns_a < turns_b;
    return decoded_a != decoded_b ? decoded_a < decoded_b : sched_item_less(a, b);
}

void sched_next_turn(struct step *t, uint32_t i, uint32_t n)
{
    struct sched_item *items = t->x.items;
    uint32_t best = i;
    for (uint32_t j = i + 1; j < n; j++)
        if (is_turn_before(t, &items[j], &items[best])) best = j;
    const struct sched_item x = items[best];
    items[best] = items[i];
    items[i] = x;
    t->x.usage[t->s->reqs[x.index].user].turns++;
}

/* Replace the batch by some tokens of it. A quarter of them are those of prompts. */
static void shorten(struct step *t)
{
    const struct sched_config *c = t->c;
    if (c->batch_tokens < c->short_tokens) return;
    if (sched_time_of(&t->b->time, t->load) <= sched_some_ms(t, c->short_ratio)) return;
    t->n_out = t->n_decode = t->n_prefill = 0;
    *t->load = (struct sched_load){0};
    gather(t);
    t->tokens = c->short_tokens;
    uint32_t room = t->n_prefill ? t->tokens - t->tokens / 4 : t->tokens, n = t->n_decode < room ? t->n_decode : room;
    memset(t->x.usage, 0, t->s->n_users * sizeof(*t->x.usage));
    for (uint32_t i = 0; i < n; i++) {
        sched_next_turn(t, i, t->n_decode);
        sched_batch_add(t, t->x.items[i].index, 1);
    }
    t->tokens -= n;
    t->is_short = true;
    if (t->n_prefill) prefill(t, true);
}

uint32_t sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                    void *scratch, struct sched_run *out, struct sched_load *load)
{
    struct step t = {.c = c, .b = b, .s = s, .out = out, .load = load, .least_decode = UINT64_MAX - c->quantum};
    t.x = sched_scratch_init(scratch, s->n, s->n_users);
    *load = (struct sched_load){0};
    gather(&t);
    choose_due(&t);
    bool forced = t.n_prefill && b->since_prefill >= c->prefill_gap;
    decode(&t, forced);
    if (t.n_prefill) prefill(&t, forced || t.n_decode == 0);
    bool several = t.shared && b->time.samples > 0;
    if (several && !b->express) sched_express(&t);
    if (several && !load->express && b->short_left && !has_whole(&t)) shorten(&t);
    load->no_prefill = t.n_prefill && load->prefill == 0;
    if (!load->express) sched_speculate(&t);
    return t.n_out;
}
