/* SPDX-License-Identifier: MIT */
#include "daemon/simulate/stats.h"
#include <math.h>

#define LEAST 1e-3
#define STEP  1.005

void stats_add(struct stats *s, double v)
{
    double class = v < LEAST ? 0 : 1 + ceil(log(v / LEAST) / log(STEP) - 1e-9);
    s->count[class < STATS_CLASSES ? (size_t) class : STATS_CLASSES]++;
    s->n++;
    s->sum += v;
    if (v > s->most) s->most = v;
}

double stats_quantile(const struct stats *s, double share)
{
    double want = share * (double)s->n;
    uint64_t so_far = 0;
    for (size_t i = 0; i <= STATS_CLASSES; i++) {
        so_far += s->count[i];
        if (!s->count[i] || (double)so_far < want) continue;
        if (i == STATS_CLASSES) break;
        double v = i ? LEAST * pow(STEP, (double)(i - 1)) : 0;
        return v < s->most ? v : s->most;
    }
    return s->most;
}

double stats_mean(const struct stats *s)
{
    return s->n ? s->sum / (double)s->n : 0;
}

double stats_jain(const double *x, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    return squares > 0 ? sum * sum / ((double)n * squares) : 1;
}
