/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/route.h"
#include "kernels/kernels.h"
#include <math.h>

#define SUM_LEAST 0x1p-14f /* of probabilities that shares are divided by */

static float score_of(const float *scores, uint32_t i)
{
    return isnan(scores[i]) ? -INFINITY : scores[i];
}

/* Insert one after the other into a list that stays sorted. @open: the groups of @size that are considered, or NULL. */
static void choose(const float *scores, uint32_t n, uint32_t used, uint32_t *chosen, const bool *open, uint32_t size)
{
    for (uint32_t i = 0, have = 0; i < n; i++) {
        if (open && !open[i / size]) continue;
        float score = score_of(scores, i);
        uint32_t at = have;
        while (at && score_of(scores, chosen[at - 1]) < score) at--;
        if (at == used) continue;
        if (have < used) have++;
        for (uint32_t j = have - 1; j > at; j--) chosen[j] = chosen[j - 1];
        chosen[at] = i;
    }
}

/* Mark the groups whose two best experts have the largest sums. */
static void choose_groups(const struct hparams_experts *x, const float *value, bool *open)
{
    const uint32_t size = x->n / x->groups;
    float sum[HPARAMS_EXPERTS_MAX];
    uint32_t best[HPARAMS_EXPERTS_MAX];
    for (uint32_t g = 0; g < x->groups; g++) {
        const float *own = value + (size_t)g * size;
        choose(own, size, size < 2 ? 1 : 2, best, NULL, 0);
        sum[g] = size < 2 ? score_of(own, best[0]) : score_of(own, best[0]) + score_of(own, best[1]);
        open[g] = false;
    }
    choose(sum, x->groups, x->groups_used, best, NULL, 0);
    for (uint32_t i = 0; i < x->groups_used; i++) open[best[i]] = true;
}

static void probabilities(const struct hparams_experts *x, const float *scores, float *p)
{
    float top = score_of(scores, 0), sum = 0;
    for (uint32_t i = 1; i < x->n; i++)
        if (score_of(scores, i) > top) top = score_of(scores, i);
    for (uint32_t i = 0; i < x->n; i++) {
        p[i] = kern_exp(x->sigmoid ? -score_of(scores, i) : score_of(scores, i) - top);
        sum += p[i];
    }
    for (uint32_t i = 0; i < x->n; i++) p[i] = x->sigmoid ? 1 / (1 + p[i]) : p[i] / sum;
}

static void route_by_probability(const struct hparams_experts *x, const float *scores, const float *choice_bias,
                                 uint32_t *chosen, float *share)
{
    float p[HPARAMS_EXPERTS_MAX], value[HPARAMS_EXPERTS_MAX], sum = 0;
    bool open[HPARAMS_EXPERTS_MAX];
    probabilities(x, scores, p);
    for (uint32_t i = 0; i < x->n; i++)
        value[i] = x->scaled_input ? scores[i] : choice_bias ? p[i] + choice_bias[i] : p[i];
    if (x->groups > 1) choose_groups(x, value, open);
    choose(value, x->n, x->used, chosen, x->groups > 1 ? open : NULL, x->n / x->groups);
    for (uint32_t j = 0; j < x->used; j++) sum += p[chosen[j]];
    if (!(sum >= SUM_LEAST)) sum = SUM_LEAST;
    for (uint32_t j = 0; j < x->used; j++) share[j] = (x->of_all ? p[chosen[j]] : p[chosen[j]] / sum) * x->scale;
}

void route(const struct hparams_experts *x, const float *scores, const float *choice_bias, uint32_t *chosen,
           float *share)
{
    if (x->sigmoid || x->groups > 1 || choice_bias) {
        route_by_probability(x, scores, choice_bias, chosen, share);
        return;
    }
    choose(scores, x->n, x->used, chosen, NULL, 0);
    float top = score_of(scores, chosen[0]), sum = 0;
    for (uint32_t j = 0; j < x->used; j++) share[j] = kern_exp(score_of(scores, chosen[j]) - top);
    for (uint32_t i = 0; i < (x->of_all ? x->n : x->used); i++)
        sum += x->of_all ? kern_exp(score_of(scores, i) - top) : share[i];
    for (uint32_t j = 0; j < x->used; j++) share[j] = share[j] / sum * x->scale;
}
