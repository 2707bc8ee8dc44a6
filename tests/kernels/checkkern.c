/* SPDX-License-Identifier: MIT */
/*
 * Every variant of every kernel against the definition, bit for bit: random shapes, every tail, worst-case values,
 * outputs and inputs that end at inaccessible pages. The definition itself is held against plain sums in double.
 * HOB_CPU leaves out what lies above it. Catches: wrong tails, reads and writes past the end, another order of
 * rounding, saturating sums, masked keys that matter.
 * usage: checkkern [NAME]   only the tests whose names match, with * and ? ("matmul Q4_K*", "*avx512")
 */
#include "tests/kernels/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TESTS 400

#ifdef __x86_64__
extern const struct kernels kernels_amx_emulated;
#endif

static struct CMUnitTest tests[MAX_TESTS];
static struct check checks[MAX_TESTS];
static char names[MAX_TESTS][64];
static size_t n_tests;

static void add(CMUnitTestFunction fn, struct check c, const char *op, const char *type)
{
    assert_true(n_tests < MAX_TESTS);
    checks[n_tests] = c;
    snprintf(names[n_tests], sizeof(names[0]), "%s%s%s%s%s", op, *type ? " " : "", type, c.isa ? " " : "",
             c.isa ? c.isa : "");
    tests[n_tests] = (struct CMUnitTest){names[n_tests], fn, NULL, NULL, &checks[n_tests]};
    n_tests++;
}

static void add_matmul(struct check c)
{
    for (c.type = 0; c.type < KERN_TYPES; c.type++)
        add(check_matmul, c, "matmul", kern_type_name((enum kern_type)c.type));
}

static void add_variant(struct check c)
{
    add_matmul(c);
    for (c.type = 0; c.type < KERN_KV_TYPES; c.type++) {
        add(check_attn, c, "attn", kern_kv_name((enum kern_kv)c.type));
        add(check_shared_attn, c, "attn, shared", kern_kv_name((enum kern_kv)c.type));
        add(check_kv_store, c, "kv_store", kern_kv_name((enum kern_kv)c.type));
    }
    c.type = 0;
    add(check_attn_merge, c, "attn_merge", "");
    add(check_quantize, c, "quantize", "");
    add(check_rmsnorm, c, "rmsnorm", "");
    add(check_rope, c, "rope", "");
    add(check_silu_mul, c, "silu_mul", "");
    add(check_gelu_mul, c, "gelu_mul", "");
    add(check_layernorm, c, "layernorm", "");
    add(check_gelu, c, "gelu", "");
    add(check_gelu_erf, c, "gelu_erf", "");
    add(check_relu_sqr, c, "relu_sqr", "");
    add(check_xielu, c, "xielu", "");
    add(check_swiglu_clamped, c, "swiglu_clamped", "");
    add(check_scale, c, "scale", "");
    add(check_softcap, c, "softcap", "");
    add(check_add, c, "add", "");
    add(check_mul, c, "mul", "");
    add(check_logsumexp, c, "logsumexp", "");
    add(check_conv, c, "conv", "");
    add(check_l2norm, c, "l2norm", "");
    add(check_softplus, c, "softplus", "");
    add(check_sigmoid_mul, c, "sigmoid_mul", "");
    add(check_delta, c, "delta", "");
    add(check_ssm, c, "ssm", "");
}

/* @isa's table if the CPU has it and HOB_CPU allows it. */
static struct check variant(const char *isa)
{
    struct check c = {.ref = kernels_nth(0), .isa = isa, .why = "not on this CPU"};
    const struct kernels *t = kernels_get(isa), *allowed = kernels_get(getenv("HOB_CPU"));
    if (!t || strcmp(t->name, isa) != 0) return c;
    for (size_t i = 0; kernels_nth(i) && kernels_nth(i) != t; i++)
        if (kernels_nth(i) == allowed) {
            c.why = "HOB_CPU leaves it out";
            return c;
        }
    c.table = t;
    return c;
}

int main(int argc, char **argv)
{
    add(check_get, (struct check){0}, "kernels_get", "");
    add(check_exp, (struct check){0}, "exp", "");
    add(check_f16, (struct check){0}, "f16", "");
    add(check_act, (struct check){0}, "kern_act", "");
    for (int t = 0; t < KERN_TYPES; t++)
        add(check_panel, (struct check){.type = t}, "panel", kern_type_name((enum kern_type)t));
    for (int t = 0; t < KERN_KV_TYPES; t++)
        add(check_kv_copy, (struct check){.type = t}, "kv_copy", kern_kv_name((enum kern_kv)t));

    add_variant(variant("scalar"));
#ifdef __x86_64__
    /* where "scalar" is the copy with fma instructions, the copy without them has to agree too */
    struct check plain = {.ref = kernels_nth(0), .isa = "scalar without fma", .why = "is what scalar is on this CPU"};
    if (kernels_nth(0) != &kernels_scalar) plain.table = &kernels_scalar;
    add_variant(plain);
    add_variant(variant("avx2"));
    add_variant(variant("avx512"));
    add_variant(variant("amx"));
    /* the same with the operations on tiles in plain C: the rest of it is AVX-512's */
    struct check emulated = variant("avx512");
    emulated.isa = "amx emulated";
    if (emulated.table) emulated.table = &kernels_amx_emulated;
    add_matmul(emulated);
#endif
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("checkkern", tests, n_tests, NULL, NULL);
}
