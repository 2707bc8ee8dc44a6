/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/byte-groups.h"

/* Beside the groups of a state's loops: those of ASCII, and of other characters, are found. */
#define LOOPS_ASCII ((uint64_t)1 << 60)
#define LOOPS_TEXT  ((uint64_t)1 << 61)

uint64_t byte_group(uint8_t b)
{
    static const char marks[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    static const char *const others[] = {
        "abcdef", "ghijklmnopqrstuvwxyz", "ABCDEF", "GHIJKLMNOPQRSTUVWXYZ", "0", "123456789", " ", "\t", "\n", "\r",
        "\x7f"};
    unsigned g = 0;
    if (b >= 0x80) return GROUP_TEXT;
    for (; marks[g]; g++)
        if (marks[g] == (char)b) return (uint64_t)1 << g;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++, g++)
        for (const char *c = others[i]; *c; c++)
            if (*c == (char)b) return (uint64_t)1 << g;
    return (uint64_t)1 << g; /* the other controls */
}

void byte_groups_add(uint64_t groups, struct byte_set *set)
{
    for (unsigned b = 0; b < 256; b++)
        if (groups & byte_group((uint8_t)b)) set->w[b >> 6] |= (uint64_t)1 << (b & 63);
}

/* Of a character. */
static unsigned utf8_lead(uint8_t b)
{
    if (b < 0x80) return UTF8_BETWEEN;
    if (b < 0xc2 || b > 0xf4) return UTF8_BAD;
    if (b < 0xe0) return UTF8_ONE;
    if (b < 0xf0) return b == 0xe0 ? UTF8_E0 : b == 0xed ? UTF8_ED : UTF8_TWO;
    return b == 0xf0 ? UTF8_F0 : b == 0xf4 ? UTF8_F4 : UTF8_THREE;
}

unsigned utf8_next(unsigned at, uint8_t b)
{
    static const struct {
        uint8_t first, last, next;
    } follows[] = {[UTF8_ONE] = {0x80, 0xbf, UTF8_BETWEEN}, [UTF8_TWO] = {0x80, 0xbf, UTF8_ONE},
                   [UTF8_THREE] = {0x80, 0xbf, UTF8_TWO},   [UTF8_E0] = {0xa0, 0xbf, UTF8_ONE},
                   [UTF8_ED] = {0x80, 0x9f, UTF8_ONE},      [UTF8_F0] = {0x90, 0xbf, UTF8_TWO},
                   [UTF8_F4] = {0x80, 0x8f, UTF8_TWO}};
    if (at == UTF8_BETWEEN) return utf8_lead(b);
    if (at == UTF8_BAD || b < follows[at].first || b > follows[at].last) return UTF8_BAD;
    return follows[at].next;
}

struct looking {
    struct dfa *d;
    uint32_t q; /* the state that characters must lead back to */
    bool counted;
};

/* Whether a character may end in state @to. */
static bool is_back(const struct looking *l, uint32_t to)
{
    return l->counted ? l->d->states[to].nullable : to == l->q;
}

/* Whether all characters that go on from state @from of the automaton and place @at of the decoder lead back: 1, 0, or
 * the error of the automaton. */
static int text_leads_back(const struct looking *l, uint32_t from, unsigned at)
{
    uint32_t before = 0; /* the state and the place of the last byte, which most of its neighbours share */
    unsigned before_at = UTF8_BAD;
    if (!regex_work(&l->d->store, 128)) return dfa_status(l->d);
    for (unsigned b = 0x80; b < 256; b++) {
        unsigned next = utf8_next(at, (uint8_t)b);
        if (next == UTF8_BAD) continue;
        uint32_t to = dfa_step(l->d, from, (uint8_t)b);
        if (to == UINT32_MAX) return dfa_status(l->d);
        if (to == before && next == before_at) continue;
        before = to;
        before_at = next;
        bool ends = l->d->states[to].nullable;
        if (to == 0 || (next == UTF8_BETWEEN && !is_back(l, to))) return 0;
        if (next == UTF8_BETWEEN) continue;
        if (ends && (l->counted || !l->d->states[l->q].nullable)) return 0;
        int r = text_leads_back(l, to, next);
        if (r <= 0) return r;
    }
    return 1;
}

/* The groups of ASCII bytes that lead back. */
static int find_ascii(const struct looking *l, uint64_t *groups)
{
    uint64_t all = 0, not = 0;
    for (unsigned b = 0; b < 0x80; b++) {
        uint32_t to = dfa_step(l->d, l->q, (uint8_t)b);
        if (to == UINT32_MAX) return dfa_status(l->d);
        *(to && is_back(l, to) ? &all : &not ) |= byte_group((uint8_t)b);
    }
    *groups = all & ~not ;
    return 0;
}

int byte_groups_loop(struct dfa *d, uint32_t q, uint64_t groups)
{
    const struct looking l = {.d = d, .q = q};
    uint64_t loops = d->states[q].loops;
    if (!(loops & LOOPS_ASCII)) {
        int r = find_ascii(&l, &loops);
        if (r < 0) return r;
        d->states[q].loops = loops | LOOPS_ASCII;
    }
    if (groups & ~GROUP_TEXT & ~loops) return 0;
    if (!(groups & GROUP_TEXT) || !loops) return groups == 0 || loops;
    if (!(d->states[q].loops & LOOPS_TEXT)) {
        int r = text_leads_back(&l, q, UTF8_BETWEEN);
        if (r < 0) return r;
        d->states[q].loops |= LOOPS_TEXT | (r ? GROUP_TEXT : 0);
    }
    return (d->states[q].loops & GROUP_TEXT) != 0;
}

int byte_groups_counted(struct dfa *d, uint32_t q, uint64_t *groups)
{
    const struct looking l = {.d = d, .q = q, .counted = true};
    int r = find_ascii(&l, groups);
    if (r == 0) r = text_leads_back(&l, q, UTF8_BETWEEN);
    if (r > 0) *groups |= GROUP_TEXT;
    return r < 0 ? r : 0;
}
