/* SPDX-License-Identifier: MIT */
#include "daemon/speculate/pace.h"

#define FULL      32    /* tokens after which the experience counts half */
#define OF_USER   4     /* tokens of its own with which a sequence believes itself as much as its user's past */
#define OF_NOBODY 8     /* the same of a user and the usual texts */
#define MOST      0.98f /* no token is sure */

/* Of usual texts. */
static const float usual[2][PACE_LENGTHS] = {{0.10f, 0.25f, 0.40f, 0.60f, 0.75f, 0.90f},
                                             {0.50f, 0.60f, 0.70f, 0.80f, 0.85f, 0.90f}};

static uint32_t class_of(uint32_t length)
{
    uint32_t c = 0;
    for (uint32_t most = 1; length > most && c < PACE_LENGTHS - 1; most *= 2) c++;
    return c;
}

void pace_learn(struct pace *p, bool near, uint32_t length, float share, bool hit)
{
    uint32_t c = class_of(length);
    float *tried = &p->tried[near][c], *hits = &p->hit[near][c];
    *tried += share;
    *hits += hit ? share : 0;
    if (*tried < FULL) return;
    *tried /= 2;
    *hits /= 2;
}

float pace_chance(const struct pace *p, const struct pace *user, bool near, uint32_t length, float share)
{
    uint32_t c = class_of(length);
    float past = (user->hit[near][c] + OF_NOBODY * usual[near][c]) / (user->tried[near][c] + OF_NOBODY);
    float chance = (p->hit[near][c] + OF_USER * past) / (p->tried[near][c] + OF_USER);
    return share * (chance < MOST ? chance : MOST);
}
