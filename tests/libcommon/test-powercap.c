/* SPDX-License-Identifier: MIT */
/* The kernel's counters, as they may look, in a directory of our own. */
#include "libcommon/powercap.h"
#include "tests/support/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ZONES "/sys/class/powercap/intel-rapl:"

static char root[FOLDER_PATH];

static int setup(void **state)
{
    return folder_make(root, "powercap");
}

static int teardown(void **state)
{
    return folder_remove(root);
}

static void put(unsigned zone, const char *file, const char *text)
{
    char name[128];
    snprintf(name, sizeof(name), ZONES "%u/%s", zone, file);
    assert_int_equal(folder_put(root, name, text), 0);
}

static void put_zone(unsigned zone, const char *name, const char *energy)
{
    put(zone, "name", name);
    put(zone, "max_energy_range_uj", "1000000\n");
    put(zone, "energy_uj", energy);
}

static void drop(unsigned zone, const char *file)
{
    char path[FOLDER_PATH + 128];
    snprintf(path, sizeof(path), "%s" ZONES "%u/%s", root, zone, file);
    assert_int_equal(unlink(path), 0);
}

static void assert_joules(double have, double want)
{
    assert_true(have > want - 1e-9 && have < want + 1e-9);
}

static void test_no_counters(void **state)
{
    struct powercap p;
    powercap_open(&p, root);
    assert_int_equal(p.n, 0);
    assert_true(powercap_read(&p) < 0);
    powercap_close(&p);
}

static void test_packages_are_added_up(void **state)
{
    struct powercap p;
    put_zone(0, "package-0\n", "100\n");
    put_zone(1, "psys\n", "0\n"); /* has the packages in it */
    put_zone(2, "package-1\n", "500\n");
    powercap_open(&p, root);
    assert_int_equal(p.n, 2);
    assert_joules(powercap_read(&p), 0);
    put(0, "energy_uj", "250100\n");
    put(1, "energy_uj", "900000\n");
    assert_joules(powercap_read(&p), 0.25);
    put(2, "energy_uj", "500500\n");
    assert_joules(powercap_read(&p), 0.75);
    assert_joules(powercap_read(&p), 0.75);
    powercap_close(&p);
}

static void test_counters_start_again(void **state)
{
    struct powercap p;
    put_zone(0, "package-0\n", "900000\n");
    powercap_open(&p, root);
    put(0, "energy_uj", "200000\n");
    assert_joules(powercap_read(&p), 0.3);
    put(0, "energy_uj", "100000\n");
    assert_joules(powercap_read(&p), 1.2);
    powercap_close(&p);
}

/* Part of the energy would be less than the truth. */
static void test_all_or_none(void **state)
{
    struct powercap p;
    put_zone(0, "package-0\n", "1\n");
    put_zone(2, "package-1\n", "none\n");
    powercap_open(&p, root);
    assert_int_equal(p.n, 0);
    put_zone(2, "package-1\n", "1\n");
    drop(2, "max_energy_range_uj");
    powercap_open(&p, root);
    assert_int_equal(p.n, 0);
    put_zone(2, "package-1\n", "1\n");
    powercap_open(&p, root);
    assert_int_equal(p.n, 2);
    put(0, "energy_uj", "");
    assert_true(powercap_read(&p) < 0);
    assert_int_equal(p.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_counters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_packages_are_added_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counters_start_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_or_none, setup, teardown),
    };
    return cmocka_run_group_tests_name("powercap", tests, NULL, NULL);
}
