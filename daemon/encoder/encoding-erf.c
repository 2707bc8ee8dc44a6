/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoding-state.h"

/* erf(x) = x P(x^2) / Q(x^2); the error is below 5e-7. */
static inline float erf_of(float x)
{
    x = x > 4 ? 4 : x < -4 ? -4 : x;
    const float s = x * x;
    float p = -2.72614225801306e-10f;
    p = p * s + 2.77068142495902e-08f;
    p = p * s - 2.10102402082508e-06f;
    p = p * s - 5.69250639462346e-05f;
    p = p * s - 7.34990630326855e-04f;
    p = p * s - 2.95459980854025e-03f;
    p = p * s - 1.60960333262415e-02f;
    float q = -1.45660718464996e-05f;
    q = q * s - 2.13374055278905e-04f;
    q = q * s - 1.68282697438203e-03f;
    q = q * s - 7.37332916720468e-03f;
    q = q * s - 1.42647390514189e-02f;
    const float y = x * p / q;
    return y > 1 ? 1 : y < -1 ? -1 : y;
}

void encoding_gelu_erf(float *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) values[i] = 0.5f * values[i] * (1 + erf_of(values[i] * 0.70710678118654752f));
}
