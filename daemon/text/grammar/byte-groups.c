/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/byte-groups.h"

/* Small letters and most marks have groups of their own; A to F are one, as in hexadecimal digits, and G to Z, 1 to 9,
 * pairs of brackets, the marks !$^`|~, and controls. */
static const uint8_t group_of[128] = {
    58, 58, 58, 58, 58, 58, 58, 58, 58, 54, 55, 58, 58, 56, 58, 58, 58, 58, 58, 58, 58, 58, 58, 58, 58, 58,
    58, 58, 58, 58, 58, 58, 53, 18, 0,  1,  18, 2,  3,  4,  19, 19, 5,  6,  7,  8,  9,  10, 51, 52, 52, 52,
    52, 52, 52, 52, 52, 52, 11, 12, 20, 13, 20, 14, 15, 49, 49, 49, 49, 49, 49, 50, 50, 50, 50, 50, 50, 50,
    50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 21, 16, 21, 18, 17, 18, 23, 24, 25, 26, 27, 28, 29,
    30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 22, 18, 22, 18, 57,
};

uint64_t byte_group(uint8_t b)
{
    return b >= 0x80 ? GROUP_TEXT : (uint64_t)1 << group_of[b];
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

/* Whether all characters that go on from state @from of the automaton and place @at of the decoder are strings that end
 * with the character: 1, 0, or the error of the automaton. */
static int text_is_counted(struct dfa *d, uint32_t from, unsigned at)
{
    uint32_t before = 0; /* the state and the place of the last byte, which most of its neighbours share */
    unsigned before_at = UTF8_BAD;
    if (!regex_work(&d->store, 128)) return dfa_status(d);
    for (unsigned b = 0x80; b < 256; b++) {
        unsigned next = utf8_next(at, (uint8_t)b);
        if (next == UTF8_BAD) continue;
        uint32_t to = dfa_step(d, from, (uint8_t)b);
        if (to == UINT32_MAX) return dfa_status(d);
        if (to == before && next == before_at) continue;
        before = to;
        before_at = next;
        if (to == 0 || d->states[to].nullable != (next == UTF8_BETWEEN)) return 0;
        int r = next == UTF8_BETWEEN ? 1 : text_is_counted(d, to, next);
        if (r <= 0) return r;
    }
    return 1;
}

int byte_groups_counted(struct dfa *d, uint32_t q, uint64_t *groups)
{
    uint64_t not = 0;
    *groups = 0;
    for (unsigned b = 0; b < 0x80; b++) {
        uint32_t to = dfa_step(d, q, (uint8_t)b);
        if (to == UINT32_MAX) return dfa_status(d);
        *(to && d->states[to].nullable ? groups : &not ) |= byte_group((uint8_t)b);
    }
    *groups &= ~not ;
    int r = text_is_counted(d, q, UTF8_BETWEEN);
    if (r > 0) *groups |= GROUP_TEXT;
    return r < 0 ? r : 0;
}
