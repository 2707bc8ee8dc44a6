/* SPDX-License-Identifier: MIT */
/* The names of devices. */
#include "daemon/model/device.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state)
{
    static const struct {
        const char *name;
        enum device_kind kind;
        uint32_t number;
    } good[] = {{"cpu", DEVICE_CPU, 0},     {"auto", DEVICE_AUTO, 0},   {"cuda", DEVICE_CUDA, 0},
                {"cuda:0", DEVICE_CUDA, 0}, {"cuda:7", DEVICE_CUDA, 7}, {"cuda:15", DEVICE_CUDA, 15}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct device_choice c = {DEVICE_CUDA, 99};
        assert_int_equal(device_parse(&c, good[i].name), 0);
        assert_int_equal(c.kind, good[i].kind);
        assert_int_equal(c.number, good[i].number);
    }
}

static void test_others(void **state)
{
    static const char *const bad[] = {"",        "CPU",     "cpu ",     "cuda:", "cuda:x",
                                      "cuda:1x", "cuda:-1", "cuda:100", "cuda0", "gpu"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct device_choice c;
        assert_int_equal(device_parse(&c, bad[i]), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "is none of auto, cpu, cuda and cuda:N"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
