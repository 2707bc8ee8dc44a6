/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/route.h"
#include "kernels/kernels.h"
#include <math.h>

static float score_of(const float *scores, uint32_t i)
{
    return isnan(scores[i]) ? -INFINITY : scores[i];
}

/* Insert one after the other into a list that stays sorted. */
static void choose(const float *scores, uint32_t n, uint32_t used, uint32_t *chosen)
{
    for (uint32_t i = 0, have = 0; i < n; i++) {
        float score = score_of(scores, i);
        uint32_t at = have;
        while (at && score_of(scores, chosen[at - 1]) < score) at--;
        if (at == used) continue;
        if (have < used) have++;
        for (uint32_t j = have - 1; j > at; j--) chosen[j] = chosen[j - 1];
        chosen[at] = i;
    }
}

void route(const float *scores, uint32_t n, uint32_t used, bool of_all, float scale, uint32_t *chosen, float *share)
{
    choose(scores, n, used, chosen);
    float top = score_of(scores, chosen[0]), sum = 0;
    for (uint32_t j = 0; j < used; j++) share[j] = kern_exp(score_of(scores, chosen[j]) - top);
    for (uint32_t i = 0; i < (of_all ? n : used); i++) sum += of_all ? kern_exp(score_of(scores, i) - top) : share[i];
    for (uint32_t j = 0; j < used; j++) share[j] = share[j] / sum * scale;
}
