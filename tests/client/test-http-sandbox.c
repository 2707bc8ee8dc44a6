/* SPDX-License-Identifier: MIT */
/* Ways out of the sandbox of hob-http, each tried in a child: with the filter of calls alone, and with landlock. */
#include "client/http/http-sandbox.h"
#include "libcommon/sandbox.h"
#include "tests/io/child.h"
#include "tests/libcommon/check.h"
#include "tests/support/folder.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define REFUSED(call) FAILS(call, EPERM)

static char root[FOLDER_PATH];
static bool with_files;

static int enter(void)
{
    const struct sandbox_path paths[] = {{folder_at(root, "open"), SANDBOX_READ}};
    int r = with_files ? sandbox_files(&(struct sandbox){.paths = paths, .n_paths = 1}) : 0;
    if (r == 0) r = http_sandbox_calls();
    return r == -ENOSYS || r == -EINVAL || r == -EOPNOTSUPP ? NO_KERNEL : r;
}

static void check(int (*fn)(void), int expected)
{
    for (int i = 0; i < 2; i++) {
        with_files = i;
        int r = child_run(fn);
        if (r == NO_KERNEL) {
            print_message("# this kernel has no %s\n", i ? "landlock" : "seccomp filters");
            if (i == 0) skip();
            return;
        }
        assert_int_equal(r, expected);
    }
}

static struct sockaddr_un address(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, folder_at(root, "open/socket"));
    return a;
}

static int try_sockets(void)
{
    const struct sockaddr_un unix_socket = address();
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(tcp);
    int listener = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, 0), pair[2], r;
    EXPECT(bind(listener, (struct sockaddr *)&tcp, sizeof(tcp)) == 0 && listen(listener, 1) == 0);
    EXPECT(getsockname(listener, (struct sockaddr *)&tcp, &len) == 0);
    EXPECT(connect(other, (struct sockaddr *)&tcp, sizeof(tcp)) == 0);
    r = enter();
    if (r) return r;
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    EXPECT(accepted >= 0 && send(accepted, "x", 1, MSG_NOSIGNAL) == 1);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(s >= 0 && connect(s, (const struct sockaddr *)&unix_socket, sizeof(unix_socket)) == 0);
    REFUSED(socket(AF_INET, SOCK_STREAM, 0));
    REFUSED(socket(AF_INET6, SOCK_DGRAM, 0));
    REFUSED(socket(AF_NETLINK, SOCK_RAW, 0));
    REFUSED(socket(AF_PACKET, SOCK_RAW, 0));
    REFUSED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    REFUSED(bind(s, (const struct sockaddr *)&unix_socket, sizeof(unix_socket)));
    REFUSED(listen(s, 1));
    return 0;
}

static int try_processes(void)
{
    struct rlimit l = {0};
    char *const argv[] = {"true", NULL};
    int r = enter();
    if (r) return r;
    REFUSED(fork());
    REFUSED(execve("/bin/true", argv, NULL));
    REFUSED(kill(getppid(), 0));
    REFUSED(syscall(SYS_tgkill, getppid(), getppid(), 0));
    REFUSED(setrlimit(RLIMIT_NOFILE, &l));
    REFUSED(setuid(0));
    REFUSED(unshare(CLONE_NEWUSER));
    REFUSED((long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == -1 ? -1 : 0);
    REFUSED(syscall(SYS_memfd_create, "x", 0));
    FAILS(syscall(425 /* io_uring_setup */, 1, NULL), ENOSYS);
    EXPECT(raise(0) == 0);
    return 0;
}

static int try_files(void)
{
    int r = enter(), fd;
    if (r) return r;
    REFUSED(open(folder_at(root, "open/file"), O_RDWR));
    REFUSED(open(folder_at(root, "open/file"), O_RDONLY | O_TRUNC));
    REFUSED(open(folder_at(root, "open/new"), O_RDONLY | O_CREAT, 0600));
    REFUSED(mkdir(folder_at(root, "open/new"), 0700));
    REFUSED(unlink(folder_at(root, "open/file")));
    REFUSED(rename(folder_at(root, "open/file"), folder_at(root, "open/new")));
    REFUSED(truncate(folder_at(root, "open/file"), 0));
    fd = open(folder_at(root, "open/file"), O_RDONLY | O_CLOEXEC);
    EXPECT(fd >= 0);
    if (with_files) FAILS(open(folder_at(root, "closed/file"), O_RDONLY), EACCES);
    return 0;
}

static int try_trace(void)
{
    int r = enter();
    if (r) return r;
    ptrace(PTRACE_ATTACH, getppid(), 0, 0);
    return 1;
}

static void test_sockets(void **state)
{
    check(try_sockets, 0);
}

static void test_processes(void **state)
{
    check(try_processes, 0);
    check(try_trace, -SIGSYS);
}

static void test_files(void **state)
{
    check(try_files, 0);
}

static int listener = -1;

static int setup(void **state)
{
    if (folder_make(root, "http-sandbox") < 0) return -1;
    if (folder_put(root, "open/file", "x") < 0 || folder_put(root, "closed/file", "x") < 0) return -1;
    const struct sockaddr_un a = address();
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(listener, (const struct sockaddr *)&a, sizeof(a)) < 0 ? -1 : listen(listener, 16);
}

static int teardown(void **state)
{
    close(listener);
    return folder_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sockets), cmocka_unit_test(test_processes),
                                       cmocka_unit_test(test_files)};
    return cmocka_run_group_tests_name("http-sandbox", tests, setup, teardown);
}
