/* SPDX-License-Identifier: MIT */
#include "daemon/model/pooling.h"
#include <math.h>
#include <string.h>

static const char *const names[POOLING_KINDS] = {"none", "mean", "cls", "last", "rank"};

const char *pooling_name(uint32_t kind)
{
    return kind < POOLING_KINDS ? names[kind] : NULL;
}

bool pooling_find(enum pooling *out, const char *name)
{
    for (uint32_t i = 0; i < POOLING_KINDS; i++)
        if (!strcmp(name, names[i])) {
            *out = (enum pooling)i;
            return true;
        }
    return false;
}

bool pooling_reads(enum pooling kind, bool last, uint64_t i, uint64_t n)
{
    if (kind == POOLING_CLS || (kind == POOLING_RANK && !last)) return i == 0;
    if (kind == POOLING_LAST || kind == POOLING_RANK) return i + 1 == n;
    return true;
}

void pooling_add(double *sums, const float *rows, size_t n, uint32_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < dim; d++) sums[d] += (double)rows[i * dim + d];
}

void pooling_mean(float *out, const double *sums, uint64_t n, uint32_t dim)
{
    for (uint32_t d = 0; d < dim; d++) out[d] = (float)(sums[d] / (double)n);
}

/* Of products in double, which are exact. */
static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

void pooling_finish(float *v, uint32_t dims, bool normalize)
{
    const double length = normalize ? sqrt(dot(v, v, dims)) : 0;
    for (uint32_t i = 0; length > 0 && i < dims; i++) v[i] = (float)((double)v[i] / length);
}

double pooling_cosine(const float *a, const float *b, uint32_t dim)
{
    const double lengths = sqrt(dot(a, a, dim)) * sqrt(dot(b, b, dim));
    return lengths > 0 ? dot(a, b, dim) / lengths : 0;
}
