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
        struct device_choice is;
    } good[] = {{"cpu", {DEVICE_CPU, 0, {0}}},
                {"auto", {DEVICE_AUTO, 0, {0}}},
                {"cuda", {DEVICE_CUDA, 0, {0}}},
                {"cuda:0", {DEVICE_CUDA, 1, {0}}},
                {"cuda:7", {DEVICE_CUDA, 1, {7}}},
                {"cuda:15", {DEVICE_CUDA, 1, {15}}},
                {"cuda:0,1", {DEVICE_CUDA, 2, {0, 1}}},
                {"cuda:3,12,0", {DEVICE_CUDA, 3, {3, 12, 0}}},
                {"cuda:3,2,1,0", {DEVICE_CUDA, 4, {3, 2, 1, 0}}}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct device_choice c = {DEVICE_CUDA, 1, {99}};
        assert_int_equal(device_parse(&c, good[i].name), 0);
        assert_memory_equal(&c, &good[i].is, sizeof(c));
    }
}

static void test_others(void **state)
{
    static const char *const bad[][2] = {{"", "is none of"},
                                         {"CPU", "is none of"},
                                         {"cpu ", "is none of"},
                                         {"cuda:", "is none of"},
                                         {"cuda:x", "is none of auto, cpu, cuda, cuda:N and cuda:N,N"},
                                         {"cuda:1x", "is none of"},
                                         {"cuda:-1", "is none of"},
                                         {"cuda:100", "is none of"},
                                         {"cuda0", "is none of"},
                                         {"cuda,1", "is none of"},
                                         {"cuda:0,", "is none of"},
                                         {"cuda:,0", "is none of"},
                                         {"cuda:0,,1", "is none of"},
                                         {"cuda:0, 1", "is none of"},
                                         {"cuda:0;1", "is none of"},
                                         {"cuda:1,0,01", "has the number 1 twice"},
                                         {"cuda:0,1,2,3,4", "has more than 4 numbers"},
                                         {"gpu", "is none of"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct device_choice c;
        assert_int_equal(device_parse(&c, bad[i][0]), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), bad[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
