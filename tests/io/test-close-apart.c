/* SPDX-License-Identifier: MIT */
/* If a close of a lingering socket made the caller wait, these tests would not end. */
#include "daemon/io/close-apart.h"
#include "tests/io/linger.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 300, SLOW_UID = 1000, OTHER_UID = 1001 };

static void wait_until_closed(uid_t uid)
{
    while (close_apart_waiting(uid)) usleep(1000);
}

static void a_user_delays_no_other(void **state)
{
    static int ends[MANY];
    int pipes[2];
    char byte;
    for (int i = 0; i < MANY; i++) close_apart(linger_make(&ends[i]), SLOW_UID);
    assert_int_equal(close_apart_waiting(SLOW_UID), MANY);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    close_apart(pipes[1], OTHER_UID);
    assert_int_equal(read(pipes[0], &byte, 1), 0); /* waits until it is closed */
    close(pipes[0]);
    wait_until_closed(OTHER_UID);
    assert_int_equal(close_apart_waiting(SLOW_UID), MANY);
    for (int i = 0; i < MANY; i++) close(ends[i]);
    wait_until_closed(SLOW_UID);
}

static void a_socket_with_unread_descriptors(void **state)
{
    int ends[2], far;
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    linger_send(ends[0], linger_make(&far));
    close_apart_socket(ends[1], SLOW_UID);
    assert_true(read(ends[0], &byte, 1) <= 0); /* the peer sees the end */
    assert_int_equal(close_apart_waiting(SLOW_UID), 1);
    close(far);
    wait_until_closed(SLOW_UID);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_delays_no_other),
        cmocka_unit_test(a_socket_with_unread_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
