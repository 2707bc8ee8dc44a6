/* SPDX-License-Identifier: MIT */
/* Where pressure is looked for, and how a trigger is set. That a kernel really tells of a stall cannot be made to
 * happen without starving the machine; what is like it here is a pipe, which systemd allows in the file's place. */
#include "daemon/io/pressure.h"
#include "libcommon/error.h"
#include "libcommon/sock.h"
#include "tests/support/folder.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[FOLDER_PATH];

static int setup(void **state)
{
    unsetenv("MEMORY_PRESSURE_WATCH");
    unsetenv("MEMORY_PRESSURE_WRITE");
    return folder_make(root, "pressure");
}

static int teardown(void **state)
{
    return folder_remove(root);
}

static const char *at(const char *name)
{
    return folder_at(root, name);
}

static void put(const char *name, const char *text)
{
    assert_int_equal(folder_put(root, name, text), 0);
}

static void assert_holds(const char *name, const char *want, size_t len)
{
    char got[256];
    FILE *f = fopen(at(name), "r");

    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof got, f), len);
    assert_memory_equal(got, want, len);
    fclose(f);
}

static void assert_opens(void)
{
    bool stream = true;
    int fd = -1;

    assert_int_equal(pressure_open(root, &fd, &stream), 0);
    assert_false(stream);
    close(fd);
}

static const char trigger[] = "some 200000 2000000"; /* with the zero */

static void test_own_group_then_system(void **state)
{
    bool stream;
    int fd;

    assert_int_equal(pressure_open(root, &fd, &stream), -ENOENT);
    assert_non_null(strstr(error_text(-ENOENT), "/proc/pressure/memory"));
    put("proc/pressure/memory", "");
    assert_opens();
    assert_holds("proc/pressure/memory", trigger, sizeof trigger);
    put("proc/pressure/memory", "");
    put("proc/self/cgroup", "0::/a.slice/b\n");
    assert_opens(); /* the group has no such file */
    assert_holds("proc/pressure/memory", trigger, sizeof trigger);
    put("proc/pressure/memory", "");
    put("sys/fs/cgroup/a.slice/b/memory.pressure", "");
    assert_opens();
    assert_holds("sys/fs/cgroup/a.slice/b/memory.pressure", trigger, sizeof trigger);
    assert_holds("proc/pressure/memory", "", 0);
}

static void test_what_the_manager_names(void **state)
{
    bool stream;
    int fd;

    put("proc/pressure/memory", "");
    setenv("MEMORY_PRESSURE_WATCH", "/dev/null", 1);
    assert_int_equal(pressure_open(root, &fd, &stream), 1);
    put("named", "");
    setenv("MEMORY_PRESSURE_WATCH", at("named"), 1);
    assert_opens(); /* nothing to write */
    assert_holds("named", "", 0);
    setenv("MEMORY_PRESSURE_WRITE", "c29tZSAxMDAwMDAgMjAwMDAwMAA=", 1);
    assert_opens();
    assert_holds("named", "some 100000 2000000", 20);
    assert_holds("proc/pressure/memory", "", 0);
}

static void test_base64(void **state)
{
    static const char *const good[][2] = {{"", ""},        {"Zg==", "f"},        {"Zm8=", "fo"},
                                          {"Zm9v", "foo"}, {"Zm9vYg==", "foob"}, {"+/8A", "\xfb\xff"}};
    static const char *const bad[] = {"Z", "Zg=", "Zg==Zg==", "=Zg=", "Z===", "====", "Zm9?", "Zm\n8", "Zg=a"};
    bool stream;
    int fd;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        put("named", "");
        setenv("MEMORY_PRESSURE_WATCH", at("named"), 1);
        setenv("MEMORY_PRESSURE_WRITE", good[i][0], 1);
        assert_opens();
        assert_holds("named", good[i][1], i == 5 ? 3 : strlen(good[i][1]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("MEMORY_PRESSURE_WRITE", bad[i], 1);
        assert_int_equal(pressure_open(root, &fd, &stream), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "MEMORY_PRESSURE_WRITE"));
    }
    char *huge = calloc(1, 100001);

    assert_non_null(huge);
    memset(huge, 'A', 100000);
    setenv("MEMORY_PRESSURE_WRITE", huge, 1);
    assert_int_equal(pressure_open(root, &fd, &stream), -EINVAL);
    free(huge);
    unsetenv("MEMORY_PRESSURE_WRITE");
    setenv("MEMORY_PRESSURE_WATCH", "named", 1);
    assert_int_equal(pressure_open(root, &fd, &stream), -EINVAL);
}

static void count(void *ctx)
{
    ++*(int *)ctx;
}

static void turn(sd_event *e)
{
    assert_true(sd_event_run(e, 60000000) >= 0);
}

static void test_pipe(void **state)
{
    struct pressure p;
    sd_event *e = NULL;
    int n = 0;

    assert_true(sd_event_new(&e) >= 0);
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    setenv("MEMORY_PRESSURE_WATCH", at("pipe"), 1);
    pressure_init(&p, e, root, count, &n);
    assert_non_null(p.source);
    int fd = open(at("pipe"), O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    turn(e);
    assert_int_equal(n, 1);
    p.told = false; /* as if a second had passed */
    assert_int_equal(write(fd, "x", 1), 1);
    turn(e); /* and what was read before does not come again */
    assert_int_equal(n, 2);
    assert_true(sd_event_run(e, 0) == 0); /* nor does the loop spin */
    close(fd);
    pressure_fini(&p);
    sd_event_unref(e);
}

static void test_socket_that_closes(void **state)
{
    struct pressure p;
    sd_event *e = NULL;
    int n = 0, listening = sock_listen(at("sock"), 0600, 1);

    assert_true(listening >= 0);
    assert_true(sd_event_new(&e) >= 0);
    setenv("MEMORY_PRESSURE_WATCH", at("sock"), 1);
    setenv("MEMORY_PRESSURE_WRITE", "Zm9v", 1);
    pressure_init(&p, e, root, count, &n);
    assert_non_null(p.source);
    int fd = accept(listening, NULL, NULL);
    char got[8];

    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, sizeof got), 3);
    assert_memory_equal(got, "foo", 3);
    assert_int_equal(write(fd, "x", 1), 1);
    turn(e);
    assert_int_equal(n, 1);
    close(fd);
    turn(e);
    assert_null(p.source); /* it does not spin */
    assert_int_equal(n, 1);
    pressure_fini(&p);
    sd_event_unref(e);
    close(listening);
}

static void test_not_more_than_once_a_second(void **state)
{
    struct pressure p = {0};

    assert_true(pressure_due(&p, 5));
    assert_false(pressure_due(&p, 5));
    assert_false(pressure_due(&p, 1000004));
    assert_true(pressure_due(&p, 1000005));
    assert_false(pressure_due(&p, 2000004));
}

/* The real file of this machine, if it has one: it takes the trigger, and the loop takes the descriptor. */
static void test_this_kernel(void **state)
{
    struct pressure p;
    sd_event *e = NULL;
    bool stream;
    int n = 0, fd;

    if (pressure_open("", &fd, &stream) != 0) {
        print_message("skipped: no PSI that this user may watch\n");
        skip();
    }
    close(fd);
    assert_true(sd_event_new(&e) >= 0);
    pressure_init(&p, e, "", count, &n);
    assert_non_null(p.source);
    pressure_fini(&p);
    sd_event_unref(e);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_own_group_then_system),
        TEST(test_what_the_manager_names),
        TEST(test_base64),
        TEST(test_pipe),
        TEST(test_socket_that_closes),
        TEST(test_not_more_than_once_a_second),
        TEST(test_this_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
