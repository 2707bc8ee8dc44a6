/* SPDX-License-Identifier: MIT */
#include "daemon/sample/params.h"
#include "libcommon/error.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_request_values(void **state)
{
    struct sample_params p;
    struct proto_sampling r;
    proto_sampling_init(&r);
    sample_params_init(&p);
    assert_int_equal(sample_params_request(&p, &r), 0);
    assert_int_equal(p.top_k, 40);
    assert_int_equal(p.repeat_n, 64);
    assert_true(p.top_p == 0.95f && p.min_p == 0.05f && p.temperature == 0.7f && p.repeat == 1.0f);
    assert_true(p.typical_p == 1 && p.frequency == 0 && p.presence == 0 && p.mirostat == 0 && p.mirostat_eta == 0.1f);
    r.top_k = 0;
    r.temperature = 0;
    r.typical_p = 0.5f;
    r.frequency_penalty = -2;
    r.presence_penalty = 2;
    r.mirostat = 5;
    r.mirostat_eta = 1;
    r.repeat_last_n = 0;
    assert_int_equal(sample_params_request(&p, &r), 0);
    assert_int_equal(p.top_k, 0);
    assert_int_equal(p.repeat_n, 0);
    assert_true(p.temperature == 0 && p.typical_p == 0.5f && p.frequency == -2 && p.presence == 2);
    assert_true(p.mirostat == 5 && p.mirostat_eta == 1);
}

static void test_bad_request_values(void **state)
{
    static const struct {
        size_t at;
        float value;
        const char *name;
    } bad[] = {
#define OF(m) offsetof(struct proto_sampling, m)
        {OF(temperature), -0.1f, "temperature is"},
        {OF(temperature), INFINITY, "temperature is"},
        {OF(top_p), -0.1f, "top_p is"},
        {OF(top_p), 1.1f, "top_p is"},
        {OF(min_p), 1.1f, "min_p is"},
        {OF(repeat_penalty), 0, "repeat_penalty is"},
        {OF(repeat_penalty), -INFINITY, "repeat_penalty is"},
        {OF(typical_p), -1e-9f, "typical_p is"},
        {OF(typical_p), 1.0001f, "typical_p is"},
        {OF(frequency_penalty), 2.1f, "frequency_penalty is"},
        {OF(presence_penalty), -2.1f, "presence_penalty is"},
        {OF(mirostat), -1, "mirostat is"},
        {OF(mirostat), INFINITY, "mirostat is"},
        {OF(mirostat_eta), 0, "mirostat_eta is"},
        {OF(mirostat_eta), 1.5f, "mirostat_eta is"},
#undef OF
    };
    struct sample_params p;
    struct proto_sampling r;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        proto_sampling_init(&r);
        memcpy((char *)&r + bad[i].at, &bad[i].value, sizeof(float));
        sample_params_init(&p);
        assert_int_equal(sample_params_request(&p, &r), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), bad[i].name));
    }
    int64_t *const counts[] = {&r.top_k, &r.seed, &r.repeat_last_n};
    for (size_t i = 0; i < 3; i++) {
        proto_sampling_init(&r);
        *counts[i] = -2;
        sample_params_init(&p);
        assert_int_equal(sample_params_request(&p, &r), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), " is -2"));
    }
}

/* --- the file's keys --- */

struct kv {
    const char *key; /* behind "general.sampling."; NULL: the end */
    enum gguf_type type;
    double value;
};

static void put(FILE *f, const void *p, size_t n)
{
    assert_int_equal(fwrite(p, 1, n, f), n);
}

/* A GGUF with these keys and nothing else, read by sample_params_file. */
static int from_file(struct sample_params *p, const struct kv *kv)
{
    char path[] = "/tmp/hob-sampling-XXXXXX", key[64];
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    struct gguf *g = NULL;
    uint64_t n = 0;
    assert_non_null(f);
    while (kv[n].key) n++;
    put(f, "GGUF", 4);
    put(f, &(uint32_t){3}, 4);
    put(f, &(uint64_t){0}, 8);
    put(f, &n, 8);
    for (; kv->key; kv++) {
        uint64_t len = (uint64_t)snprintf(key, sizeof(key), "general.sampling.%s", kv->key);
        put(f, &len, 8);
        put(f, key, len);
        put(f, &(uint32_t){kv->type}, 4);
        if (kv->type == GGUF_F32) put(f, &(float){(float)kv->value}, 4);
        if (kv->type == GGUF_I32) put(f, &(int32_t){(int32_t)kv->value}, 4);
        if (kv->type == GGUF_U32) put(f, &(uint32_t){(uint32_t)kv->value}, 4);
        if (kv->type == GGUF_U64) put(f, &(uint64_t){UINT64_MAX}, 8);
    }
    assert_int_equal(fclose(f), 0);
    int r = gguf_open(&g, path);
    unlink(path);
    assert_int_equal(r, 0);
    sample_params_init(p);
    r = sample_params_file(p, g);
    gguf_close(g);
    return r;
}

static void test_file_values(void **state)
{
    struct sample_params p;
    const struct kv all[] = {
        {"top_k", GGUF_I32, 20},
        {"top_p", GGUF_F32, 0.5},
        {"min_p", GGUF_F32, 0.25},
        {"temp", GGUF_F32, 1.5},
        {"penalty_repeat", GGUF_F32, 2},
        {"penalty_freq", GGUF_F32, 0.5},
        {"penalty_present", GGUF_F32, -1},
        {"penalty_last_n", GGUF_I32, 7},
        {"mirostat", GGUF_I32, 2},
        {"mirostat_tau", GGUF_F32, 3},
        {"mirostat_eta", GGUF_F32, 0.5},
        {"xtc_probability", GGUF_F32, 0.5},
        {NULL, 0, 0},
    };
    assert_int_equal(from_file(&p, all), 0);
    assert_int_equal(p.top_k, 20);
    assert_int_equal(p.repeat_n, 7);
    assert_true(p.top_p == 0.5f && p.min_p == 0.25f && p.temperature == 1.5f && p.repeat == 2);
    assert_true(p.frequency == 0.5f && p.presence == -1 && p.mirostat == 3 && p.mirostat_eta == 0.5f);
    /* the request is heard after the file */
    struct proto_sampling r;
    proto_sampling_init(&r);
    r.mirostat = 0;
    r.top_k = 1;
    assert_int_equal(sample_params_request(&p, &r), 0);
    assert_true(p.mirostat == 0 && p.top_k == 1 && p.top_p == 0.5f);
}

static void test_file_values_as_files_have_them(void **state)
{
    struct sample_params p;
    const struct kv negative[] = {{"top_k", GGUF_I32, -1}, {"penalty_last_n", GGUF_I32, -1}, {NULL, 0, 0}};
    assert_int_equal(from_file(&p, negative), 0);
    assert_int_equal(p.top_k, 0);
    assert_int_equal(p.repeat_n, UINT32_MAX);
    const struct kv off[] = {{"mirostat", GGUF_U32, 0}, {"mirostat_tau", GGUF_F32, 3}, {NULL, 0, 0}};
    assert_int_equal(from_file(&p, off), 0);
    assert_true(p.mirostat == 0);
    const struct kv one[] = {{"mirostat", GGUF_U32, 1}, {NULL, 0, 0}};
    assert_int_equal(from_file(&p, one), 0);
    assert_true(p.mirostat == 5 && p.mirostat_eta == 0.1f);
}

static void test_bad_file_values(void **state)
{
    const struct kv bad[][2] = {
        {{"top_p", GGUF_F32, NAN}},      {{"temp", GGUF_F32, -1}},        {{"min_p", GGUF_F32, INFINITY}},
        {{"mirostat", GGUF_U32, 3}},     {{"mirostat_eta", GGUF_F32, 0}}, {{"penalty_repeat", GGUF_F32, 0}},
        {{"penalty_freq", GGUF_F32, 3}}, {{"top_k", GGUF_F32, 3}},        {{"penalty_last_n", GGUF_U64, 0}},
        {{"temp", GGUF_U32, 1}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct sample_params p, before;
        sample_params_init(&before);
        assert_int_equal(from_file(&p, bad[i]), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "general.sampling"));
        assert_true(p.top_k == before.top_k && p.top_p == before.top_p && p.temperature == before.temperature);
        assert_true(p.mirostat == before.mirostat && p.frequency == before.frequency);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_values),  cmocka_unit_test(test_bad_request_values),
        cmocka_unit_test(test_file_values),     cmocka_unit_test(test_file_values_as_files_have_them),
        cmocka_unit_test(test_bad_file_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
