/* SPDX-License-Identifier: MIT */
#include "daemon/io/listener.h"
#include "libcommon/error.h"
#include "libcommon/sock.h"
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

static char dir[64], path[96];

static int setup(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/hob-listener-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/h.sock", dir);
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    return rmdir(dir);
}

static bool exists(void)
{
    return access(path, F_OK) == 0;
}

static void made_and_removed(void **state)
{
    struct listener l;
    struct stat st;
    int fd;

    assert_int_equal(listener_make(&l, path, 0600), 0);
    assert_false(l.inherited);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    fd = sock_connect(path);
    assert_true(fd >= 0);
    close(fd);
    listener_fini(&l);
    assert_false(exists());
    assert_int_equal(l.fd, -1);
}

static void mode_for_the_group(void **state)
{
    struct listener l;
    struct stat st;
    mode_t old = umask(077);

    assert_int_equal(listener_make(&l, path, 0660), 0);
    umask(old);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    listener_fini(&l);
}

static void second_one_is_refused(void **state)
{
    struct listener l, second;

    assert_int_equal(listener_make(&l, path, 0600), 0);
    assert_int_equal(listener_make(&second, path, 0600), -EADDRINUSE);
    assert_non_null(strstr(error_text(-EADDRINUSE), path));
    assert_true(exists());
    listener_fini(&l);
}

static void retired_makes_room_and_still_accepts(void **state)
{
    struct listener old, new;
    int fd, peer;

    assert_int_equal(listener_make(&old, path, 0600), 0);
    fd = sock_connect(path);
    listener_retire(&old);
    assert_false(exists());
    assert_int_equal(listener_make(&new, path, 0600), 0);
    peer = accept(old.fd, NULL, NULL);
    assert_true(peer >= 0);
    close(peer);
    close(fd);
    listener_fini(&old); /* the file is the new one's */
    assert_true(exists());
    listener_fini(&new);
    assert_false(exists());
}

static void file_of_another_is_left(void **state)
{
    struct listener l;

    assert_int_equal(listener_make(&l, path, 0600), 0);
    assert_int_equal(unlink(path), 0);
    assert_true(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
    listener_fini(&l);
    assert_true(exists());
}

/* Runs listener_inherit with @fd as what systemd handed over. */
static int inherit(struct listener *l, int fd, const char *n)
{
    char pid[24];

    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", n, 1);
    for (int i = 3; fd != 3 && i < 5; i++) dup2(fd, i);
    return listener_inherit(l);
}

static void inherited_is_left_alone(void **state)
{
    struct listener l, l2;
    int fd = sock_listen(path, 0600, 5), copy, client;

    assert_true(fd >= 0);
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 20);
    assert_int_equal(inherit(&l, fd, "1"), 0);
    assert_true(l.inherited);
    assert_string_equal(l.path, path);
    assert_int_equal(l.fd, 3);
    assert_null(getenv("LISTEN_FDS"));
    assert_int_equal(fcntl(3, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(listener_inherit(&l2), 1); /* once only */
    listener_retire(&l);
    listener_fini(&l);
    assert_true(exists());
    client = sock_connect(path); /* the manager's copy still listens */
    assert_true(client >= 0);
    close(client);
    close(copy);
    if (fd != 3) close(fd);
    close(4);
}

static void only_one_listening_stream_socket(void **state)
{
    struct listener l;
    int pair[2], fd;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    fd = fcntl(pair[0], F_DUPFD, 20);
    assert_int_equal(inherit(&l, fd, "1"), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "listening"));
    assert_int_equal(inherit(&l, fd, "2"), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "2 sockets"));
    close(fd);
    close(pair[1]);
    close(3);
    close(4);
}

static void nothing_handed_over(void **state)
{
    struct listener l;

    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    assert_int_equal(listener_inherit(&l), 1);
    assert_int_equal(l.fd, -1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(made_and_removed),
        T(mode_for_the_group),
        T(second_one_is_refused),
        T(retired_makes_room_and_still_accepts),
        T(file_of_another_is_left),
        T(inherited_is_left_alone),
        T(only_one_listening_stream_socket),
        T(nothing_handed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
