/* SPDX-License-Identifier: MIT */
#include "tests/cache/prefix/naive.h"
#include <assert.h>
#include <string.h>

#define EACH(m, e)    for (struct place *e = (m)->places; e < (m)->places + (m)->n; e++)
#define EACH_OF(m, e) for (const struct place *e = (m)->places; e < (m)->places + (m)->n; e++)

static uint32_t common(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    uint32_t i = 0;
    while (i < n_a && i < n_b && a[i] == b[i]) i++;
    return i;
}

uint32_t place_last(const struct place *e)
{
    return (e->n - 1) % KV_BLOCK + 1;
}

static uint32_t before_last(const struct place *e)
{
    return e->n - place_last(e);
}

bool place_in_memory(const struct place *e)
{
    return e->block != KV_NO_BLOCK;
}

static bool readable(const struct place *e)
{
    return place_in_memory(e) || e->disk;
}

bool place_begins(const struct place *a, uint32_t ns, const int32_t *tokens, uint32_t n)
{
    return a->namespace == ns && a->n <= n && common(a->tokens, a->n, tokens, n) == a->n;
}

/* @e is a descendant of @a. */
static bool is_behind(const struct place *a, const struct place *e)
{
    return a->n % KV_BLOCK == 0 && e->n > a->n && place_begins(a, e->namespace, e->tokens, e->n);
}

static bool is_child(const struct place *a, const struct place *e)
{
    return is_behind(a, e) && before_last(e) == a->n;
}

struct place *naive_at(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t n)
{
    EACH(m, e)
    if (e->n == n && place_begins(e, ns, tokens, n)) return e;
    return NULL;
}

struct place *naive_by_id(struct naive *m, struct prefix_id id)
{
    EACH(m, e)
    if (e->id.high == id.high && e->id.low == id.low) return e;
    return NULL;
}

struct place *naive_parent(struct naive *m, const struct place *e)
{
    return before_last(e) ? naive_at(m, e->namespace, e->tokens, before_last(e)) : NULL;
}

bool naive_pinned(const struct naive *m, const struct place *e)
{
    if (e->refs) return true;
    EACH_OF(m, x)
    if (x->refs && is_behind(e, x)) return true;
    return false;
}

bool naive_leaf(const struct naive *m, const struct place *e)
{
    if (!place_in_memory(e) || naive_pinned(m, e)) return false;
    EACH_OF(m, x)
    if (place_in_memory(x) && is_child(e, x)) return false;
    return true;
}

bool naive_writable(struct naive *m, const struct place *e)
{
    if (!place_in_memory(e) || e->disk || e->writing) return false;
    return before_last(e) == 0 || naive_parent(m, e)->disk;
}

bool naive_disk_leaf(const struct naive *m, const struct place *e)
{
    if (!e->disk || naive_pinned(m, e)) return false;
    EACH_OF(m, x)
    if (x->disk && is_child(e, x)) return false;
    return true;
}

uint32_t naive_blocks(const struct naive *m, uid_t uid)
{
    uint32_t n = 0;
    EACH_OF(m, e)
    n += place_in_memory(e) && e->uid == uid;
    return n;
}

/* For two leaves of a uid that are both tails, or both not. */
static bool goes_before(const struct naive *m, const struct place *a, const struct place *b)
{
    if (!a->tails) {
        const uint64_t now = m->clocks[a->uid];
        const uint32_t x = m->rank(a->uid, a->uses, now - a->since), y = m->rank(b->uid, b->uses, now - b->since);
        if (x != y) return x < y;
    }
    return a->used < b->used;
}

bool naive_victim(const struct naive *m, const struct place *e)
{
    if (!naive_leaf(m, e)) return false;
    const uint32_t blocks = naive_blocks(m, e->uid);
    EACH_OF(m, x)
    {
        if (!naive_leaf(m, x)) continue;
        if (naive_blocks(m, x->uid) > blocks) return false;
        if (x->uid != e->uid) continue;
        if (!x->tails && e->tails) return false;
        if (!x->tails == !e->tails && goes_before(m, x, e)) return false;
    }
    return true;
}

/* --- finding --- */

enum state { MEMORY, READABLE, ANY };

static bool is(const struct place *e, enum state s)
{
    return s == MEMORY ? place_in_memory(e) : s == READABLE ? readable(e) : true;
}

/* Full blocks, one after the other, that are all in state @s. */
static uint32_t full_blocks(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t n, enum state s)
{
    uint32_t at = 0;
    while (n - at >= KV_BLOCK) {
        const struct place *e = naive_at(m, ns, tokens, at + KV_BLOCK);
        if (!e || !is(e, s)) break;
        at += KV_BLOCK;
    }
    return at;
}

/* The length of the longest beginning of tokens[at …] that a child of that place shares. */
static uint32_t best_child(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t at, uint32_t n, enum state s)
{
    uint32_t best = 0;
    EACH(m, e)
    {
        if (e->namespace != ns || before_last(e) != at || !is(e, s) || common(e->tokens, at, tokens, n) < at) continue;
        const uint32_t c = common(e->tokens, e->n, tokens, n) - at;
        if (c > best) best = c;
    }
    return best;
}

uint32_t naive_child(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t at, uint32_t n)
{
    return best_child(m, ns, tokens, at, n, READABLE);
}

void naive_find(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t n, struct naive_match *out)
{
    *out = (struct naive_match){.n = full_blocks(m, ns, tokens, n, MEMORY)};
    out->n_partial = best_child(m, ns, tokens, out->n, n, MEMORY);
    const uint32_t to = full_blocks(m, ns, tokens, n, READABLE);
    const uint32_t more = best_child(m, ns, tokens, to, n, READABLE);
    if (to + more > out->n + out->n_partial) out->n_disk = to + more - out->n;
    out->all = to + more == n;
    if (out->all) return;
    out->surely_evicted = best_child(m, ns, tokens, to, n, ANY) > more;
    for (uint32_t i = 0; i < m->n_ghosts; i++)
        out->maybe_evicted |= n - to >= KV_BLOCK && m->ghosts[i].namespace == ns && m->ghosts[i].n == to + KV_BLOCK &&
                              common(m->ghosts[i].tokens, to + KV_BLOCK, tokens, n) == to + KV_BLOCK;
}

/* --- changes --- */

struct place *naive_covering(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t n)
{
    struct place *found = naive_at(m, ns, tokens, n);
    if (found && place_in_memory(found)) return found;
    EACH(m, e)
    if (place_in_memory(e) && e->namespace == ns && e->n > n && before_last(e) == (n - 1) / KV_BLOCK * KV_BLOCK &&
        common(e->tokens, e->n, tokens, n) == n)
        return e;
    return NULL;
}

static bool covered(struct naive *m, const struct place *e)
{
    EACH(m, x)
    if (x != e && place_in_memory(x) && before_last(x) == before_last(e) &&
        place_begins(e, x->namespace, x->tokens, x->n))
        return true;
    return false;
}

static bool for_nothing(const struct naive *m, const struct place *e)
{
    if (readable(e) || e->writing || naive_pinned(m, e)) return false;
    EACH_OF(m, x)
    if (is_behind(e, x)) return false;
    return true;
}

void naive_tidy(struct naive *m)
{
    EACH(m, e)
    if (place_in_memory(e) && !e->refs && !e->tails && place_last(e) < KV_BLOCK && covered(m, e)) {
        e->block = KV_NO_BLOCK;
        e->used = 0;
    }
    for (uint32_t i = 0; i < m->n;) {
        if (for_nothing(m, &m->places[i])) {
            m->places[i] = m->places[--m->n];
            i = 0;
        } else {
            i++;
        }
    }
}

static void count_use(struct place *e)
{
    if (e->uses < 7) e->uses++;
}

void naive_add_use(struct naive *m, struct place *e)
{
    e->used = ++m->clock;
    e->since = ++m->clocks[e->uid];
}

struct place *naive_enter(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t n, uint32_t block, uid_t uid)
{
    struct place *e = naive_at(m, ns, tokens, n);
    if (!e) {
        assert(m->n < NAIVE_PLACES);
        e = &m->places[m->n++];
        *e = (struct place){.namespace = ns, .n = n, .uid = uid};
        memcpy(e->tokens, tokens, n * sizeof(*tokens));
    }
    e->block = block;
    naive_add_use(m, e);
    count_use(e);
    EACH(m, x) /* covered places on disk only count as unused */
    if (x != e && !place_in_memory(x) && !x->tails && !naive_pinned(m, x) && place_last(x) < KV_BLOCK &&
        before_last(x) == before_last(e) && place_begins(x, ns, tokens, n))
        x->used = 0;
    return e;
}

void naive_touch(struct naive *m, const struct place *e, bool begins)
{
    m->clock++;
    m->clocks[e->uid] += begins;
    EACH(m, x)
    if (x == e || is_behind(x, e)) {
        x->used = m->clock;
        x->since = m->clocks[x->uid];
        if (begins) count_use(x);
    }
}

static void give_up(struct naive *m, const struct place *e)
{
    if (place_last(e) < KV_BLOCK || m->n_ghosts == sizeof(m->ghosts) / sizeof(m->ghosts[0])) return;
    m->ghosts[m->n_ghosts].namespace = e->namespace;
    m->ghosts[m->n_ghosts].n = e->n;
    memcpy(m->ghosts[m->n_ghosts++].tokens, e->tokens, sizeof(e->tokens));
}

void naive_evict(struct naive *m, struct place *e, bool writing)
{
    if (!e->disk) give_up(m, e);
    e->block = KV_NO_BLOCK;
    e->writing |= writing;
    m->evictions[e->uid]++;
}

void naive_disk_removed(struct naive *m, struct place *e)
{
    if (!e->disk) return;
    if (!place_in_memory(e)) give_up(m, e);
    e->disk = false;
}
