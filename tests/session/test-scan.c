/* SPDX-License-Identifier: MIT */
/* The scan of the directory at the start, which believes the end of a log only if its checksum matches. */
#include "tests/session/fixture.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { SUMMARY = 32, SUM = 16, LATE = 1900000000 /* seconds */ };

static struct session_info listed(struct fixture *g, const char *name)
{
    struct session_info *list, found = {0};
    size_t n;
    assert_int_equal(session_list(g->store, 7, &list, &n), 0);
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name->data, name) == 0) found = list[i];
    assert_non_null(found.name);
    free(list);
    return found;
}

/* Without its summary a session has the time and the size of its file. */
static void test_a_damaged_summary_is_not_believed(void **state)
{
    struct fixture *g = *state;
    char path[256];
    const struct timespec late[2] = {{.tv_sec = LATE, .tv_nsec = 5000}, {.tv_sec = LATE, .tv_nsec = 5000}};
    fixture_say(g, 7, "a", 1);
    fixture_say(g, 7, "b", 1);
    fixture_close(g);
    fixture_path(path, g, 7, "a", ".log");
    size_t n;
    char *log = fixture_read(path, &n);
    for (int i = -1; i < SUMMARY; i++) {
        if (i >= 0) log[n - SUM - SUMMARY + (size_t)i] ^= 0x10;
        fixture_write(path, log, n);
        assert_int_equal(utimensat(AT_FDCWD, path, late, 0), 0);
        fixture_open(g);
        struct session_info a = listed(g, "a");
        assert_int_equal(a.used == LATE * UINT64_C(1000000) + 5, i >= 0);
        assert_int_equal(a.bytes == n, i >= 0);
        assert_int_equal(a.ids, i < 0 ? 20 : 0);
        assert_int_equal(a.messages, i < 0 ? 2 : 0);
        fixture_close(g);
        if (i >= 0) log[n - SUM - SUMMARY + (size_t)i] ^= 0x10;
    }
    free(log);
    fixture_open(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_damaged_summary_is_not_believed, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
