/* SPDX-License-Identifier: MIT */
#include "tests/io/linger.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

int linger_make(int *out)
{
    static const char bytes[1 << 16];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger hour = {.l_onoff = 1, .l_linger = 3600};
    socklen_t len = sizeof(a);
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int small = 4096;
    assert_true(door >= 0 && fd >= 0);
    assert_int_equal(setsockopt(door, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    assert_int_equal(bind(door, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    *out = accept(door, NULL, NULL);
    assert_true(*out >= 0);
    close(door);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)), 0);
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) continue;
    return fd;
}

void linger_send(int to, int fd)
{
    char space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(sizeof(size_t)))) = {0};
    struct iovec v = {(char[]){"x"}, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    assert_int_equal(sendmsg(to, &m, MSG_NOSIGNAL), 1);
    close(fd); /* not the last reference */
}
