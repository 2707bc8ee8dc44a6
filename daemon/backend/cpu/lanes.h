/* SPDX-License-Identifier: MIT */
#pragma once
/* Sums in double of the products of f32 values, which are exact: 16 lanes, lane j adds over i = j mod 16, ascending;
 * then lanes j += j+8, j+4, j+2, j+1. */
#include <stddef.h>

#define LANES 16

static inline double lanes_fold(double lane[LANES])
{
    for (size_t h = LANES / 2; h; h /= 2)
        for (size_t j = 0; j < h; j++) lane[j] += lane[j + h];
    return lane[0];
}

/* The sum of x[i] * y[i]. */
static inline double lanes_dot(const float *x, const float *y, size_t n)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)y[i + j];
    for (; i < n; i++) lane[i % LANES] += (double)x[i] * (double)y[i];
    return lanes_fold(lane);
}
