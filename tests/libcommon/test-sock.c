/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/sock.h"
#include "tests/libcommon/check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/hob-test-sock-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/s.sock", dir);
    return 0;
}

static int remove_dir(void **state)
{
    unlink(path);
    return rmdir(dir);
}

static void connects_and_names_the_peer(void **state)
{
    int listener = sock_listen(path, 0600, 4), client, server;
    uid_t uid = 12345;
    pid_t pid = 0;

    assert_true(listener >= 0);
    client = sock_connect(path);
    assert_true(client >= 0);
    server = accept(listener, NULL, NULL);
    assert_true(server >= 0);
    assert_int_equal(sock_peer(server, &uid, &pid), 0);
    assert_int_equal(uid, getuid());
    assert_int_equal(pid, getpid());
    close(server);
    close(client);
    close(listener);
}

static void flags_of_the_descriptors(void **state)
{
    int listener = sock_listen(path, 0600, 4), client = sock_connect(path);

    assert_true(listener >= 0 && client >= 0);
    assert_true(fcntl(listener, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(client, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(listener, F_GETFL) & O_NONBLOCK);
    assert_false(fcntl(client, F_GETFL) & O_NONBLOCK);
    close(client);
    close(listener);
}

static void the_mode_is_exact_whatever_the_umask(void **state)
{
    static const mode_t modes[] = {0600, 0660, 0666};
    static const mode_t masks[] = {0, 022, 077, 0777};
    struct stat st;

    for (size_t m = 0; m < 3; m++)
        for (size_t u = 0; u < 4; u++) {
            mode_t old = umask(masks[u]);
            int fd = sock_listen(path, modes[m], 4);

            umask(old);
            assert_true(fd >= 0);
            assert_int_equal(stat(path, &st), 0);
            assert_int_equal(st.st_mode & 07777, modes[m]);
            close(fd);
        }
}

static void a_dead_daemons_socket_is_replaced(void **state)
{
    int fd = sock_listen(path, 0600, 4);

    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(sock_connect(path), -ECONNREFUSED);
    fd = sock_listen(path, 0600, 4);
    assert_true(fd >= 0);
    close(fd);
}

/* Like a process that is exiting: it accepts one more connection, and then closes the socket. */
static void *dies_when_connected_to(void *listener)
{
    struct pollfd p = {.fd = *(int *)listener, .events = POLLIN};

    poll(&p, 1, -1);
    close(p.fd);
    return NULL;
}

static void a_dying_daemons_socket_is_replaced(void **state)
{
    int dying = sock_listen(path, 0600, 4), fd;
    pthread_t thread;

    assert_true(dying >= 0);
    assert_int_equal(pthread_create(&thread, NULL, dies_when_connected_to, &dying), 0);
    fd = sock_listen(path, 0600, 4);
    assert_true(fd >= 0);
    pthread_join(thread, NULL);
    close(fd);
}

static void a_live_one_is_left_alone(void **state)
{
    int fd = sock_listen(path, 0600, 4), client;

    assert_true(fd >= 0);
    assert_int_equal(sock_listen(path, 0600, 4), -EADDRINUSE);
    assert_non_null(strstr(error_text(-EADDRINUSE), path));
    client = sock_connect(path);
    assert_true(client >= 0);
    close(client);
    close(fd);
}

static void a_live_one_with_a_full_backlog_is_live(void **state)
{
    int fd = sock_listen(path, 0600, 0), clients[2];

    assert_true(fd >= 0);
    clients[0] = sock_connect(path); /* a backlog of 0 has room for one */
    assert_true(clients[0] >= 0);
    assert_int_equal(sock_listen(path, 0600, 4), -EADDRINUSE);
    close(clients[0]);
    close(fd);
}

static void a_file_is_never_removed(void **state)
{
    struct stat st;
    int fd;

    unlink(path);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(sock_listen(path, 0600, 4), -EEXIST);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    unlink(path);
}

static void nobody_there(void **state)
{
    char missing[128];

    unlink(path);
    assert_int_equal(sock_connect(path), -ENOENT);
    snprintf(missing, sizeof missing, "%s/no/s.sock", dir);
    assert_int_equal(sock_listen(missing, 0600, 4), -ENOENT);
    assert_non_null(strstr(error_text(-ENOENT), dir));
}

static void long_paths_are_refused_with_the_limit(void **state)
{
    char longer[109] = "/tmp/";

    memset(longer + 5, 'x', 103);
    assert_int_equal(sock_connect(longer), -ENAMETOOLONG);
    assert_non_null(strstr(error_text(-ENAMETOOLONG), "108 bytes, the limit is 107"));
    assert_int_equal(sock_listen(longer, 0600, 4), -ENAMETOOLONG);
    assert_int_equal(sock_connect(""), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connects_and_names_the_peer),
        cmocka_unit_test(flags_of_the_descriptors),
        cmocka_unit_test(the_mode_is_exact_whatever_the_umask),
        cmocka_unit_test(a_dead_daemons_socket_is_replaced),
        cmocka_unit_test(a_dying_daemons_socket_is_replaced),
        cmocka_unit_test(a_live_one_is_left_alone),
        cmocka_unit_test(a_live_one_with_a_full_backlog_is_live),
        cmocka_unit_test(a_file_is_never_removed),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(long_paths_are_refused_with_the_limit),
    };

    return cmocka_run_group_tests_name("sock", tests, make_dir, remove_dir);
}
