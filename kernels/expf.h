/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The constants of exp, which is the same in all variants. With n = round(x * log2(e)) and r = x - n ln 2, |r| <=
 * ln(2)/2,
 *
 *   t = fma(x, LOG2E, MAGIC); n = t - MAGIC            (MAGIC = 1.5 * 2^23: the sum's low bits are n)
 *   r = fma(n, -LN2_HI, x); r = fma(n, -LN2_LO, r)
 *   p = C6; p = fma(p, r, C5) ... fma(p, r, C2); p = fma(p, r, 1); p = fma(p, r, 1)
 *   exp = the float whose bits are bits(p) + (bits(t) << 23)
 *
 * and 0 for x < MIN, INFINITY for x > MAX: between them every result is a normal number. C2 ... C6 are our own Remez
 * fit of (e^r - 1 - r) / r^2 on |r| <= 1.0005 ln(2)/2, weighted for the relative error of e^r, with the coefficients
 * rounded to float one after the other and the rest fitted again: at most 3.2e-9 before rounding. At most 1 ulp off
 * in all (tests/kernels checks it).
 */
#define EXP_LOG2E  0x1.715476p+0f
#define EXP_MAGIC  0x1.8p+23f
#define EXP_LN2_HI 0x1.62e43p-1f
#define EXP_LN2_LO -0x1.05c61p-29f
#define EXP_C2     0x1.fffffcp-2f
#define EXP_C3     0x1.55548cp-3f
#define EXP_C4     0x1.555858p-5f
#define EXP_C5     0x1.123dep-7f
#define EXP_C6     0x1.6ac6b2p-10f
#define EXP_MIN    -87.3f
#define EXP_MAX    88.72f

/* GELU's argument to exp (kernels.h): -2 sqrt(2/pi), and 0.044715 times that. */
#define GELU_A -0x1.988454p+0f
#define GELU_B -0x1.2444f2p-4f

/* erf(x) = x P(x^2) / Q(x^2) for |x| <= ERF_LIMIT, from the highest power on; the error is below 5e-7. Behind the limit
 * erf is 1 up to 2e-8. */
#define ERF_LIMIT 4.0f
#define ERF_P                                                                                                          \
    {                                                                                                                  \
        -2.72614225801306e-10f, 2.77068142495902e-08f, -2.10102402082508e-06f, -5.69250639462346e-05f,                 \
            -7.34990630326855e-04f, -2.95459980854025e-03f, -1.60960333262415e-02f                                     \
    }
#define ERF_Q                                                                                                          \
    {                                                                                                                  \
        -1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f, -7.37332916720468e-03f,                \
            -1.42647390514189e-02f                                                                                     \
    }
#define SQRT_HALF 0x1.6a09e6p-1f

/* Of the clamped SwiGLU: the factor 1.702, and the limit of its inputs. */
#define SWIGLU_ALPHA 0x1.b3b646p+0f
#define SWIGLU_LIMIT 7.0f

/* Softplus: log(1 + e) = 2 atanh(e / (2 + e)), by the series of atanh, whose terms after the last one of these add less
 * than 2^-29 of the sum. */
#define SOFTPLUS_3  0x1.555556p-2f
#define SOFTPLUS_5  0x1.99999ap-3f
#define SOFTPLUS_7  0x1.24924ap-3f
#define SOFTPLUS_9  0x1.c71c72p-4f
#define SOFTPLUS_11 0x1.745d18p-4f
#define SOFTPLUS_13 0x1.3b13b2p-4f
#define SOFTPLUS_15 0x1.111112p-4f
