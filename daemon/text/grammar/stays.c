/* SPDX-License-Identifier: MIT */
/* A search, breadth first, of the states that the characters of some groups lead to. Groups that lead to a state where
 * another group may not follow are dropped: the end of a string, for example, and an escape. */
#include "daemon/text/grammar/stays.h"
#include "daemon/text/grammar/byte-groups.h"
#include <stdlib.h>

#define FOUND_MAX    96   /* states, each at a place inside a character, that one search looks at */
#define BETWEEN_MAX  8    /* of them, those between two characters */
#define NODES_MIN    6    /* of a subtree that is worth the question */
#define NODES_SEARCH 32   /* and a search */
#define TEXT_FIRST   0xc2 /* the bytes that begin characters above ASCII */
#define TEXT_LAST    0xf4

struct found {
    uint32_t q;
    uint8_t at;
};

struct search {
    struct dfa *d;
    struct found found[FOUND_MAX];
    uint32_t n, n_between;
    uint64_t groups;
    struct byte_set first; /* bytes that their characters begin with */
    bool ends, full;
    bool loops; /* all characters must lead back to found[0] */
};

static struct byte_set first_bytes(uint64_t groups)
{
    struct byte_set set = {{0}};
    for (unsigned b = 0; b < 0x80; b++)
        if (groups & byte_group((uint8_t)b)) set.w[b >> 6] |= (uint64_t)1 << (b & 63);
    for (unsigned b = TEXT_FIRST; b <= TEXT_LAST && groups & GROUP_TEXT; b++) set.w[3] |= (uint64_t)1 << (b & 63);
    return set;
}

static bool covers(const struct byte_set *all, const struct byte_set *some)
{
    return !((some->w[0] & ~all->w[0]) | (some->w[1] & ~all->w[1]) | (some->w[2] & ~all->w[2]) |
             (some->w[3] & ~all->w[3]));
}

static void drop(struct search *s, uint64_t groups)
{
    if (!(s->groups & groups)) return;
    s->groups &= ~groups;
    s->first = first_bytes(s->groups);
}

/* State @to with its edges. False: the automaton has failed. */
static bool expand(struct dfa *d, uint32_t to)
{
    return to != UINT32_MAX && (d->states[to].edges || dfa_expand(d, to));
}

static void add(struct search *s, struct found x)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->found[i].q == x.q && s->found[i].at == x.at) return;
    s->n_between += x.at == UTF8_BETWEEN;
    s->full = s->n == FOUND_MAX || s->n_between > BETWEEN_MAX;
    if (!s->full) s->found[s->n++] = x;
}

/* Whether it is known that the groups keep state @x alive. */
static bool is_known(struct search *s, struct found x)
{
    const struct dfa_stays *y = s->d->states[x.q].stays;
    if (!y || y->at != x.at || s->loops) return false;
    bool loops = !(s->groups & ~y->loops.groups), others = !(s->groups & ~y->others.groups);
    s->ends = s->ends || (loops ? y->loops.ends : others && y->others.ends);
    return loops || others;
}

/* Goes by byte @b to @x. False: the automaton has failed. */
static bool reach(struct search *s, uint8_t b, struct found x)
{
    if (!expand(s->d, x.q)) return false;
    const struct dfa_state *q = &s->d->states[x.q];
    bool between = x.at == UTF8_BETWEEN;
    if (x.q == 0 || (between && (s->loops ? x.q != s->found[0].q : !covers(&q->live, &s->first)))) {
        drop(s, byte_group(b));
        return true;
    }
    s->ends = s->ends || q->nullable;
    if (!is_known(s, x)) add(s, x);
    return true;
}

/* Follows all bytes that may come behind @x. */
static bool look(struct search *s, struct found x)
{
    uint32_t before = 0; /* the state and the place of the last byte, which most of its neighbours share */
    unsigned before_at = UTF8_BAD, end = s->groups & GROUP_TEXT ? 256 : 0x80;
    if (!regex_work(&s->d->store, 128) || !expand(s->d, x.q)) return false;
    for (unsigned b = x.at == UTF8_BETWEEN ? 0 : 0x80; b < end && !s->full; b++) {
        unsigned at = utf8_next(x.at, (uint8_t)b);
        if (at == UTF8_BAD || !(s->groups & byte_group((uint8_t)b))) continue;
        uint32_t to = dfa_step(s->d, x.q, (uint8_t)b);
        if (to && to == before && at == before_at) continue;
        if (!reach(s, (uint8_t)b, (struct found){to, (uint8_t)at})) return false;
        before = s->groups & byte_group((uint8_t)b) ? to : 0;
        before_at = at;
    }
    return true;
}

/* Searches from state @q with @groups, of which some may be dropped; all of them if too many states are found. False:
 * the automaton has failed. */
static bool search(struct search *s, uint32_t q, uint64_t groups)
{
    s->groups = groups;
    s->first = first_bytes(groups);
    s->ends = s->d->states[q].nullable;
    s->n = s->n_between = 1;
    s->found[0] = (struct found){q, UTF8_BETWEEN};
    for (uint32_t i = 0; i < s->n && !s->full; i++)
        if (!look(s, s->found[i])) return false;
    if (s->full) s->groups = 0;
    return true;
}

static struct dfa_stays *new_stays(struct dfa *d, uint32_t q, uint8_t at)
{
    struct dfa_stays *x = regex_may_take(&d->store, sizeof(*x)) ? calloc(1, sizeof(*x)) : NULL;
    if (!x) {
        regex_fail(&d->store, -ENOMEM);
        return NULL;
    }
    d->store.bytes += sizeof(*x);
    x->at = at;
    return d->states[q].stays = x;
}

/* Notes which groups may follow state @q, between two characters, and which of ASCII lead back to it. False: the
 * automaton has failed. */
static bool find_loops(struct dfa *d, uint32_t q)
{
    uint64_t dead = GROUP_BAD, back = 0, away = 0;
    struct dfa_stays *x = expand(d, q) ? new_stays(d, q, UTF8_BETWEEN) : NULL;
    if (!x) return false;
    const struct dfa_edges *e = d->states[q].edges;
    for (unsigned b = 0; b < 0x80; b++) {
        uint32_t to = e->to[e->of[b]];
        if (to == 0) dead |= byte_group((uint8_t)b);
        *(to == q ? &back : &away) |= byte_group((uint8_t)b);
    }
    for (unsigned b = TEXT_FIRST; b <= TEXT_LAST; b++)
        if (!byte_set_has(&d->states[q].live, (uint8_t)b)) dead |= GROUP_TEXT;
    x->may_follow = ~dead;
    x->loops = (struct stays_groups){back & ~away, d->states[q].nullable};
    return true;
}

/* Finds out if all characters above ASCII lead back to state @q. False: the automaton has failed. */
static bool find_text_loops(struct dfa *d, uint32_t q)
{
    struct search s = {.d = d, .loops = true};
    struct dfa_stays *x = d->states[q].stays;
    x->knows_text = true;
    if (x->may_follow & GROUP_TEXT && !search(&s, q, GROUP_TEXT)) return false;
    if (!(s.groups & GROUP_TEXT)) return true;
    x->loops.groups |= GROUP_TEXT;
    x->loops.ends = x->loops.ends || s.ends;
    return true;
}

/* The groups of ASCII whose characters may all follow state @q, and lead to where at least half as many bytes may
 * follow. False: the automaton has failed. */
static bool choose(struct dfa *d, uint32_t q, uint64_t *groups)
{
    const unsigned enough = (byte_set_count(&d->states[q].live) + 1) / 2;
    *groups = d->states[q].stays->may_follow & ~GROUP_TEXT;
    for (unsigned b = 0; b < 0x80; b++) {
        uint64_t group = byte_group((uint8_t)b);
        if (!(*groups & group)) continue;
        uint32_t to = dfa_step(d, q, (uint8_t)b);
        if (!expand(d, to)) return false;
        if (byte_set_count(&d->states[to].live) < enough) *groups &= ~group;
    }
    return true;
}

/* Notes the result of a search for all of its states between two characters. */
static void keep(const struct search *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct dfa_stays *x = s->d->states[s->found[i].q].stays;
        if (s->found[i].at != UTF8_BETWEEN || !x || x->at != UTF8_BETWEEN || (i > 0 && x->knows_others)) continue;
        x->knows_others = true;
        x->others = (struct stays_groups){s->groups, s->ends};
    }
}

/* Searches from state @q, between two characters: first with ASCII and then, if few states are found, with all
 * characters. Characters that are counted lead to too many states. False: the automaton has failed. */
static bool find_others(struct dfa *d, uint32_t q)
{
    struct search s = {.d = d}, all = {.d = d};
    uint64_t groups;
    d->states[q].stays->knows_others = true;
    if (regex_has(&d->store, d->states[q].node, REGEX_LIMITED)) return true;
    if (!choose(d, q, &groups) || !search(&s, q, groups)) return false;
    bool text = s.groups && d->states[q].stays->may_follow & GROUP_TEXT;
    if (text && !search(&all, q, s.groups | GROUP_TEXT)) return false;
    keep(all.groups & GROUP_TEXT ? &all : &s);
    return true;
}

/* The groups with characters above ASCII; NULL: there are none. False: the automaton has failed. */
static bool find_text(struct dfa *d, uint32_t q, const struct stays_groups **out)
{
    *out = NULL;
    if (!d->states[q].stays && !find_loops(d, q)) return false;
    struct dfa_stays *x = d->states[q].stays;
    if (x->at != UTF8_BETWEEN) return true;
    if (!x->knows_text && !find_text_loops(d, q)) return false;
    if (!(x->loops.groups & GROUP_TEXT) && !x->knows_others && !find_others(d, q)) return false;
    if (x->loops.groups & GROUP_TEXT) *out = &x->loops;
    if (x->others.groups & GROUP_TEXT) *out = &x->others;
    return true;
}

/* State @q at place @at inside a character: what the states behind the character have in common, into *all. False: the
 * automaton has failed. */
static bool find_inside(struct dfa *d, uint32_t q, unsigned at, struct stays_groups *all)
{
    uint32_t before = 0;
    unsigned before_at = UTF8_BAD;
    if (!regex_work(&d->store, 64)) return false;
    all->ends = all->ends || d->states[q].nullable;
    for (unsigned b = 0x80; b < 0xc0 && all->groups; b++) {
        unsigned next = utf8_next(at, (uint8_t)b);
        if (next == UTF8_BAD) continue;
        uint32_t to = dfa_step(d, q, (uint8_t)b);
        if (to == UINT32_MAX) return false;
        if (to && to == before && next == before_at) continue;
        before = to;
        before_at = next;
        const struct stays_groups *behind = NULL;
        if (to && next != UTF8_BETWEEN && !find_inside(d, to, next, all)) return false;
        if (to && next == UTF8_BETWEEN && !find_text(d, to, &behind)) return false;
        if (to && next != UTF8_BETWEEN) continue;
        all->groups = behind ? all->groups & behind->groups : 0;
        all->ends = all->ends || (behind && behind->ends);
    }
    return true;
}

static bool holds(const struct stays_groups *x, uint64_t groups, bool *ends)
{
    *ends = x->ends;
    return !(groups & ~x->groups);
}

/* 1, 0 or the error of the automaton. */
static int search_between(struct dfa *d, uint32_t q, uint64_t groups, bool *ends)
{
    struct dfa_stays *x = d->states[q].stays;
    if (groups & ~x->may_follow) return 0;
    if (!(groups & ~GROUP_TEXT & ~x->loops.groups) && !x->knows_text) {
        if (!find_text_loops(d, q)) return dfa_status(d);
        if (holds(&x->loops, groups, ends)) return 1;
    }
    if (!x->knows_others && !find_others(d, q)) return dfa_status(d);
    return holds(&x->others, groups, ends);
}

static int search_inside(struct dfa *d, uint32_t q, uint8_t at, uint64_t groups, bool *ends)
{
    struct stays_groups all = {.groups = ~GROUP_BAD};
    struct dfa_stays *x = d->states[q].stays;
    if (regex_has(&d->store, d->states[q].node, REGEX_LIMITED)) return 0;
    if (!x) {
        if (!find_inside(d, q, at, &all)) return dfa_status(d);
        x = d->states[q].stays ? d->states[q].stays : new_stays(d, q, at);
        if (!x) return dfa_status(d);
        if (x->at == at) x->loops = all;
    }
    return x->at == at && holds(&x->loops, groups, ends);
}

static int search_below(struct dfa *d, const struct token_trie *t, uint32_t i, uint32_t q, bool *ends)
{
    const struct trie_node *n = &t->nodes[i];
    const uint64_t groups = t->below[i];
    const bool large = n->skip - i >= NODES_SEARCH;
    if (n->skip - i < NODES_MIN || groups & GROUP_BAD) return 0;
    if (n->place != UTF8_BETWEEN) return large ? search_inside(d, q, n->place, groups, ends) : 0;
    if (!d->states[q].stays && !find_loops(d, q)) return dfa_status(d);
    const struct dfa_stays *x = d->states[q].stays;
    if (x->at != UTF8_BETWEEN) return 0;
    if (holds(&x->loops, groups, ends) || holds(&x->others, groups, ends)) return 1;
    return large ? search_between(d, q, groups, ends) : 0;
}

int stays_below(struct dfa *d, const struct token_trie *t, uint32_t i, uint32_t q, bool *ends)
{
    if (d->store.status) return dfa_status(d);
    const uint64_t max = regex_begin_search(&d->store);
    int r = search_below(d, t, i, q, ends);
    return regex_end_search(&d->store, max) ? r : 0;
}
