/* SPDX-License-Identifier: MIT */
/* The messages to a service manager, byte for byte, also out of the sandbox. */
#include "daemon/io/notify.h"
#include "daemon/io/sandbox-calls.h"
#include "libcommon/sandbox.h"
#include "tests/support/folder.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char root[FOLDER_PATH], name[128];
static int manager = -1;
static struct sd_event *loop;

static bool alive(void *ctx)
{
    return true;
}

/* The manager listens at @where; '@' is the abstract namespace. */
static void listen_at(const char *where)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(where);

    memcpy(a.sun_path, where, n);
    if (*where == '@') a.sun_path[0] = 0;
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", where, 1), 0);
}

static int setup(void **state)
{
    int r = folder_make(root, "notify");

    unsetenv("WATCHDOG_USEC");
    if (r == 0) r = sd_event_new(&loop);
    snprintf(name, sizeof name, "@hob-test-notify-%d", (int)getpid());
    return r;
}

static int teardown(void **state)
{
    unsetenv("NOTIFY_SOCKET");
    if (manager >= 0) close(manager);
    manager = -1;
    loop = sd_event_unref(loop);
    return folder_remove(root);
}

static void expect(const char *message)
{
    char text[512] = "";

    assert_true(recv(manager, text, sizeof text - 1, 0) >= 0);
    assert_string_equal(text, message);
}

static void test_messages(void **state)
{
    unsigned long long usec;
    char text[512] = "";
    struct notify n;

    listen_at(folder_at(root, "notify"));
    notify_init(&n, loop, alive, NULL);
    notify_loading(&n, "tiny");
    expect("STATUS=Loading tiny\nEXTEND_TIMEOUT_USEC=60000000");
    notify_ready(&n, "tiny");
    expect("READY=1\nSTATUS=Serving tiny");
    notify_reloading(&n);
    assert_true(recv(manager, text, sizeof text - 1, 0) >= 0);
    assert_int_equal(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%llu", &usec), 1);
    notify_reloaded(&n, "tiny", NULL);
    expect("READY=1\nSTATUS=Serving tiny");
    notify_reloaded(&n, "tiny", "a restart is pending");
    expect("READY=1\nSTATUS=Serving tiny; a restart is pending");
    notify_stopping(&n, "SIGTERM");
    expect("STOPPING=1\nSTATUS=Stopping: SIGTERM");
    notify_failed(&n, EIO, "no such model");
    expect("STATUS=no such model\nERRNO=5");
    notify_fini(&n);
}

static void test_watchdog(void **state)
{
    struct notify n;

    listen_at(name);
    assert_int_equal(setenv("WATCHDOG_USEC", "30000", 1), 0);
    notify_init(&n, loop, alive, NULL);
    notify_ready(&n, "tiny");
    unsetenv("WATCHDOG_USEC");
    expect("READY=1\nSTATUS=Serving tiny");
    assert_true(sd_event_run(loop, 1000000) > 0);
    expect("WATCHDOG=1");
    notify_fini(&n);
}

/* A manager that is not there changes nothing. */
static void test_no_manager(void **state)
{
    static const char *const bad[] = {"", "/", "@", "relative", "vsock:2:1", "/nonexistent/notify"};
    char longest[256];
    struct notify n;

    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        memset(longest, 'x', sizeof longest - 1);
        longest[sizeof longest - 1] = 0;
        longest[0] = '/';
        setenv("NOTIFY_SOCKET", i < sizeof bad / sizeof *bad ? bad[i] : longest, 1);
        notify_init(&n, loop, alive, NULL);
        assert_int_equal(n.fd, -1);
        notify_ready(&n, "tiny");
        notify_fini(&n);
    }
    listen_at(name);
    notify_init(&n, loop, alive, NULL);
    close(manager);
    manager = -1;
    notify_ready(&n, "tiny");
    notify_fini(&n);
}

/* 0, or 1: a half of the sandbox fails although the kernel has it. */
static int enter(void)
{
    int r = sandbox_files(&(struct sandbox){0});

    if (r < 0 && r != -ENOSYS && r != -EOPNOTSUPP) return 1;
    return sandbox_calls() < 0;
}

static void tell_from_sandbox(const char *where)
{
    pid_t pid;
    int status;

    listen_at(where);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct notify n;

        notify_init(&n, loop, alive, NULL);
        if (enter()) _exit(1);
        notify_stopping(&n, "idle");
        notify_failed(&n, EIO, "late");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    expect("STOPPING=1\nSTATUS=Stopping: idle");
    expect("STATUS=late\nERRNO=5");
}

static void test_sandbox_and_path(void **state)
{
    tell_from_sandbox(folder_at(root, "notify"));
}

static void test_sandbox_and_abstract_name(void **state)
{
    tell_from_sandbox(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watchdog, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_manager, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sandbox_and_path, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sandbox_and_abstract_name, setup, teardown),
    };

    return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
