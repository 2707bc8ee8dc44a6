/* SPDX-License-Identifier: MIT */
#pragma once
/* Shared by the files of check-cuda: the device and its memory. */
#include "daemon/backend/cuda/products.h"
#include "daemon/model/hparams.h"
#include "kernels/cuda/state-args.h"
#include "kernels/cuda/variant-args.h"
#include "tests/kernels/check.h"

extern struct cuda_device device;
extern const struct kernels *ref; /* the definition */

/* Device memory of a case; freed together by dev_reset(). up: a copy; poisoned: filled with POISON. */
void *dev_up(const void *p, size_t bytes);
void *dev_poisoned(size_t bytes);
/* Wait for the device and copy to host memory of mem(). */
void *dev_down(const void *p, size_t bytes);
/* The same, and mem_reset. */
void dev_reset(void);

/* Start a kernel by name. */
void dev_run(const char *name, struct cuda_grid grid, const void *args);

/* Device memory for quantized rows, poisoned; ld as the backend has it, half of the cases wide. */
struct cuda_acts dev_acts(size_t n, size_t k);
/* Places in them: the code of a column of a row, in codes; the scale of a block of it, and the scale times the sum, in
 * floats; the two sums. */
struct act_place {
    size_t code, d, sum, s;
};
struct act_place act_place(const struct cuda_acts *a, size_t k, size_t row, size_t column);
/* The codes, scales and sums of @n rows are those of the definition for @x [n][k]. */
void same_acts(const struct cuda_acts *got, const float *x, size_t n, size_t k, const char *what);

/* What a case of norm has. */
struct norm_case {
    size_t n, k;
    bool h, bias, post, norm, gather, out_scale, quantized;
    float residual;
    enum taste taste;
};

/* A row by the definition: @x with @h joined, and its norm @out. */
void check_norm_row(const struct norm_case *c, float *x, float *h, const float *bias, const float *post, const float *w,
                    const float *scale, float *out);

void check_cuda_matmul(void **state); /* state: enum kern_type */
void check_cuda_tiles(void **state);  /* the same, of experts */
void check_cuda_one(void **state);    /* the same, of quantized types */
void check_cuda_norm(void **state);
void check_cuda_gated(void **state);
void check_cuda_norm_any(void **state);
void check_cuda_gates(void **state);
void check_cuda_layers(void **state);
void check_cuda_altup(void **state);
void check_cuda_route(void **state);
void check_cuda_sort(void **state);
void check_cuda_rows(void **state);
void check_cuda_conv(void **state);
void check_cuda_scans(void **state);
void check_cuda_state_out(void **state);
void check_cuda_logits(void **state);
void check_cuda_largest(void **state);
void check_cuda_heads(void **state); /* state: enum kern_kv, as those that follow */
void check_cuda_copy(void **state);
void check_cuda_attn(void **state);
void check_cuda_decode(void **state);
void check_cuda_latent_heads(void **state);
void check_cuda_attn_latent(void **state);
void check_cuda_latent_join(void **state);
void check_cuda_lora(void **state);

/* --- KV --- */

#define BLOCKS 40 /* KV blocks of a case */

struct kv_case {
    enum kern_kv type;
    uint32_t heads, kv_heads, dim;
    size_t half, stride; /* bytes of K of one KV head, and of a block */
};

struct kv_case random_case(enum kern_kv type, unsigned i); /* @i: number of the case */
struct cuda_kv kv_of(const struct kv_case *c, void *mem);

/* Memory of the test, and of the device. */
float *kv_floats(size_t n);
float *kv_up(const float *x, size_t n);
