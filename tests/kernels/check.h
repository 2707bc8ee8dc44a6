/* SPDX-License-Identifier: MIT */
#pragma once
/* Shared by the files of checkkern: seeded numbers, memory between guard pages, comparison. */
#include "kernels/kernels.h"
#include "kernels/table.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* One cmocka test: an operation of a variant. table is NULL where this CPU (or HOB_CPU) does not allow it, why says so.
 */
struct check {
    const struct kernels *table;
    const struct kernels *ref;
    const char *isa, *why;
    int type; /* of the operation: an enum kern_type, kern_kv, or 0 */
};

/* Prints why and skips when the variant cannot run. */
#define CHECK_BEGIN(state)                                                                                             \
    struct check *c = *(state);                                                                                        \
    if (!c->table) {                                                                                                   \
        print_message("skipped: %s: %s\n", c->isa, c->why);                                                            \
        skip();                                                                                                        \
    }                                                                                                                  \
    rng_seed(1)

void check_matmul(void **state);
void check_attn(void **state);
void check_attn_merge(void **state);
void check_shared_attn(void **state);
void check_kv_store(void **state);
void check_quantize(void **state);
void check_rmsnorm(void **state);
void check_rope(void **state);
void check_silu_mul(void **state);
void check_gelu_mul(void **state);
void check_layernorm(void **state);
void check_gelu(void **state);
void check_relu_sqr(void **state);
void check_gelu_erf(void **state);
void check_xielu(void **state);
void check_swiglu_clamped(void **state);
void check_scale(void **state);
void check_softcap(void **state);
void check_mul(void **state);
void check_add(void **state);
void check_logsumexp(void **state);
void check_conv(void **state);
void check_l2norm(void **state);
void check_softplus(void **state);
void check_sigmoid_mul(void **state);
void check_delta(void **state);
void check_ssm(void **state);
void check_act(void **state); /* from here on: no variant, type only */
void check_kv_copy(void **state);
void check_panel(void **state);
void check_exp(void **state);
void check_f16(void **state);
void check_get(void **state);

/* --- numbers: the same on every run --- */

void rng_seed(uint64_t seed);
uint32_t rng(void);
uint32_t rng_below(uint32_t n);
float rng_float(void); /* about -2 … 2, bell-shaped */

/* Values worth trying. WILD adds zeros of both signs, subnormals, and magnitudes whose products overflow. */
enum taste { TAME, WILD };
float rng_value(enum taste t);
uint16_t rng_f16(enum taste t); /* finite bits */

/* The values of a case's weights and activations; EXTREME: all codes are at an end of their range. */
enum stuff { S_TAME, S_WILD, S_EXTREME };

/* Fill @blocks blocks of weights, as in a file. */
void fill_source(enum kern_type t, uint8_t *p, size_t blocks, enum stuff s);

/* Activations of @n tokens for a product with weights of type @t, in mem(). */
void fill_acts(struct kern_acts *x, enum kern_type t, size_t n, size_t k, enum stuff s);

/* Value @j of a block of TQ1_0, TQ2_0, IQ1 … IQ3 (naive-iq.c). NAN: another type. */
float naive_iq(enum kern_type t, const uint8_t *p, size_t j);

/* --- memory --- */

/* @n bytes that end where an inaccessible page begins, filled with POISON; what lies before them on their page too.
 * Freed all together by mem_reset(); mem_check() fails the test when the bytes before have changed. */
#define POISON 0xad
void *mem(size_t n);
void mem_check(void);
void mem_reset(void);

/* A copy of @p[n] in such memory. */
void *mem_copy(const void *p, size_t n);

/* --- comparison --- */

/* Equal bits, or both NaN. On a difference, fails and prints the place and the printf-style context. */
void same_floats(const float *got, const float *want, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void same_bytes(const void *got, const void *want, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* |got - want| <= tol, or fails. */
void near_double(double got, double want, double tol, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
