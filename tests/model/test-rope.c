/* SPDX-License-Identifier: MIT */
/* Frequencies of each RoPE scaling beside numbers worked out elsewhere: Llama 3's by its published code, YaRN's by
 * transformers' function (both with Python's floats). */
#include "daemon/model/rope.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void near(const double *got, const double *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(fabs(got[i] / want[i] - 1) < 1e-6)) fail_msg("frequency %u is %.9g, not %.9g", i, got[i], want[i]);
}

static void test_linear(void **state)
{
    const struct rope r = {.kind = ROPE_LINEAR, .base = 10000, .scale = 0.25f};
    const double want[] = {0.25, 0.025, 0.0025, 0.00025};
    const float factors[] = {1, 2, 4, 8};
    double got[4];
    rope_frequencies(&r, 8, NULL, got);
    near(got, want, 4);
    rope_frequencies(&r, 8, factors, got);
    near(got, (double[]){0.25, 0.0125, 0.000625, 0.00003125}, 4);
}

static void test_llama3(void **state)
{
    const struct rope r = {
        .kind = ROPE_LLAMA3, .base = 500000, .scale = 1 / 8.0f, .original = 8192, .low = 1, .high = 4};
    const double want[] = {1,
                           0.440366603,
                           0.193922745,
                           0.0853971003,
                           0.0376060309,
                           0.0165604401,
                           0.00729266474,
                           0.00321144599,
                           0.000524846161,
                           7.78465527e-05,
                           3.4281022e-05,
                           1.50962172e-05,
                           6.64786987e-06,
                           2.92749987e-06,
                           1.28917317e-06,
                           5.6770881e-07};
    double got[16];
    rope_frequencies(&r, 32, NULL, got);
    near(got, want, 16);
}

static void test_yarn(void **state)
{
    const struct rope r = {
        .kind = ROPE_YARN, .base = 10000, .scale = 1 / 4.0f, .original = 4096, .fast = 32, .slow = 1};
    const double want[] = {1,           0.562341325,    0.316227766,    0.177827941,   0.1,           0.0562341325,
                           0.028234622, 0.0139721954,   0.00678571429,  0.003213379,   0.00146820034, 0.000635099789,
                           0.00025,     0.000140585331, 7.90569415e-05, 4.44569853e-05};
    double got[16];
    rope_frequencies(&r, 32, NULL, got);
    near(got, want, 16);
}

/* --- keys --- */

static struct rope read_of(const char *arch, bool freqs)
{
    struct tiny t;
    struct rope r;
    tiny_init(&t);
    t.arch = arch;
    t.type = 0;
    t.rope_freqs = freqs;
    struct gguf *g = model_file_tiny(&t);
    int e = rope_read(&r, g, "llama", 512, false);
    gguf_close(g);
    if (e) fail_msg("%s", error_text(e));
    return r;
}

static void test_keys(void **state)
{
    struct rope r = read_of("llama-yarn", false);
    assert_true(r.kind == ROPE_YARN && r.scale == 0.25f && r.original == 128 && r.fast == 32 && r.slow == 1);
    assert_true(fabs(r.magnitude - (1 + 0.1 * log(4))) < 1e-6);
    struct rope told = read_of("llama-yarn-told", false);
    assert_memory_equal(&r, &told, sizeof(r));
    r = read_of("llama-keys", false);
    assert_true(r.kind == ROPE_LLAMA3 && r.scale == 0.125f && r.original == 64 && r.low == 1 && r.high == 4);
    assert_true(r.magnitude == 1);
    r = read_of("llama-keys", true); /* the tensor already scales */
    assert_true(r.kind == ROPE_LINEAR && r.scale == 1);
    r = read_of("llama", true);
    assert_true(r.kind == ROPE_LINEAR && r.scale == 1 && r.base == 10000 && r.original == 512 && r.magnitude == 1);
}

/* "llama-yarn-told" with another value of @name. */
static int read_told(struct rope *r, const char *name, float value)
{
    char key[64];
    struct buf b = BUF_INIT;
    struct gguf *g;
    struct tiny t;
    tiny_init(&t);
    t.arch = "llama-yarn-told";
    t.type = 0;
    model_file_tiny_bytes(&b, &t);
    snprintf(key, sizeof(key), "llama.rope.scaling.%s", name);
    memcpy(b.data + model_file_find(&b, key) + strlen(key) + 4, &value, sizeof(value));
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    int e = rope_read(r, g, "llama", 512, false);
    gguf_close(g);
    buf_fini(&b);
    return e;
}

static void told_wrong(const char *name, float value, const char *why)
{
    struct rope r;
    assert_int_equal(read_told(&r, name, value), -EOPNOTSUPP);
    if (!strstr(error_text(-EOPNOTSUPP), why)) fail_msg("\"%s\", not \"%s\"", error_text(-EOPNOTSUPP), why);
}

/* Keys that would change the magnitude or the ramp are refused. */
static void test_keys_that_say_otherwise(void **state)
{
    struct rope r;
    assert_int_equal(read_told(&r, "yarn_attn_factor", 1), 0); /* llama.cpp's value for an absent key */
    assert_true(fabs(r.magnitude - (1 + 0.1 * log(4))) < 1e-6);
    told_wrong("yarn_attn_factor", 0.9f, "key 'llama.rope.scaling.yarn_attn_factor' is 0.9; only 1.13863 is supported");
    told_wrong("yarn_attn_factor", NAN, "key 'llama.rope.scaling.yarn_attn_factor' is nan");
    told_wrong("yarn_ext_factor", 0, "key 'llama.rope.scaling.yarn_ext_factor' is 0; only 1 is supported");
    told_wrong("yarn_log_multiplier", 0.1f, "'llama.rope.scaling.yarn_log_multiplier' is 0.1; only");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_keys_that_say_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
