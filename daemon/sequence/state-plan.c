/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/state-plan.h"

#define CHAIN_LEAST   4u  /* states that a chain may keep in any case */
#define CHAIN_NO_KV   8u  /* the same where states are all that it has */
#define STRIDE_MOST   4u  /* blocks */
#define ANSWER_BLOCKS 16u /* of an answer from which on states stay inside of it */

static bool is_power_of_2(uint32_t n)
{
    return n && !(n & (n - 1));
}

/* 2, 8, 32, 128, ... */
static bool is_distance(uint32_t blocks)
{
    return is_power_of_2(blocks) && blocks & 0xaaaaaaaa;
}

static uint32_t whole(uint32_t tokens)
{
    return tokens / KV_BLOCK * KV_BLOCK;
}

bool state_wanted(const struct state_plan *p, uint32_t at, enum prefix_state_kind *kind)
{
    const uint32_t end = p->prompt ? whole(p->prompt - 1) : 0; /* the last token is computed again in any case */
    *kind = PREFIX_STATE_TURN;
    if (at == 0) return false;
    if (at == end || at == whole(p->message) || at == whole(p->shared)) return true;
    *kind = PREFIX_STATE_NEAR;
    if (p->stride && at / KV_BLOCK % p->stride == 0) return true;
    if (at < end) return is_distance((end - at) / KV_BLOCK);
    return (at - end) / KV_BLOCK >= ANSWER_BLOCKS && is_power_of_2((at - end) / KV_BLOCK);
}

bool state_row(uint32_t i, bool every)
{
    return every || i == 0 || is_power_of_2(i);
}

uint32_t state_stride(const struct state_sizes *s)
{
    const double share = (double)s->block * s->percent / 100;
    if (share * STRIDE_MOST < (double)s->state) return 0;
    uint32_t n = 1;
    while (share * n < (double)s->state) n++;
    return n;
}

uint32_t state_chain(const struct state_sizes *s, uint32_t tokens)
{
    if (s->block == 0) return CHAIN_NO_KV;
    const double room = (double)(tokens / KV_BLOCK) * (double)s->block * s->percent / 100 / (double)s->state;
    if (room < CHAIN_LEAST) return CHAIN_LEAST;
    return room < UINT32_MAX / 2 ? (uint32_t)room : UINT32_MAX / 2;
}
