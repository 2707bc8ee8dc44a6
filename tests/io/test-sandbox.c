/* SPDX-License-Identifier: MIT */
/* What a process in the sandbox can do, and what it is refused: each case enters the sandbox in a child. */
#include "daemon/io/sandbox-calls.h"
#include "libcommon/sandbox.h"
#include "tests/io/child.h"
#include "tests/support/folder.h"
#include <fcntl.h>
#include <linux/random.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char root[FOLDER_PATH];

static int setup(void **state)
{
    return folder_make(root, "sandbox");
}

static int teardown(void **state)
{
    return folder_remove(root);
}

static const char *at(const char *name)
{
    return folder_at(root, name);
}

static void make(const char *name)
{
    int fd = open(at(name), O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static void check(int (*fn)(void))
{
    int r = child_run(fn);

    if (r == NO_KERNEL) {
        print_message("skipped: this kernel cannot do that\n");
        skip();
    }
    assert_int_equal(r, 0);
}

static int writes(const char *path, int flags)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0600);

    return fd < 0 ? -1 : close(fd);
}

static int reads(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -1 : close(fd);
}

static int enter_files(void)
{
    const struct sandbox_path paths[] = {
        {at("state"), SANDBOX_WRITE},    {at("link"), SANDBOX_READ},      {at("run"), SANDBOX_REMOVE},
        {at("nowhere"), SANDBOX_WRITE},  {NULL, SANDBOX_WRITE},           {at("above"), SANDBOX_LIST},
        {at("one.file"), SANDBOX_WRITE}, {"/dev/random", SANDBOX_DEVICE}, {"/proc/self/task", SANDBOX_DEVICE},
    };
    int r = sandbox_files(&(struct sandbox){.paths = paths, .n_paths = sizeof paths / sizeof *paths});

    return r == -ENOSYS || r == -EOPNOTSUPP ? NO_KERNEL : r;
}

static int try_own_files(void)
{
    int r = enter_files();

    if (r) return r;
    EXPECT(writes(at("state/new"), O_CREAT | O_EXCL) == 0);
    EXPECT(mkdir(at("state/dir"), 0700) == 0);
    EXPECT(writes(at("state/dir/new"), O_CREAT) == 0);
    EXPECT(rename(at("state/new"), at("state/newer")) == 0);
    EXPECT(link(at("state/newer"), at("state/newest")) == 0);
    EXPECT(reads(at("state/newest")) == 0);
    EXPECT(writes(at("state/newer"), O_TRUNC) == 0);
    EXPECT(unlink(at("state/newer")) == 0);
    EXPECT(reads(at("model")) == 0); /* what the link leads to */
    EXPECT(unlink(at("run/h.sock")) == 0);
    EXPECT(writes(at("one.file"), 0) == 0);
    EXPECT(reads("/proc/self/status") == 0);
    EXPECT(writes("/dev/null", 0) == 0);
    int bits, fd = open("/dev/random", O_RDWR | O_CLOEXEC);
    EXPECT(fd >= 0 && ioctl(fd, RNDGETENTCNT, &bits) == 0);
    EXPECT(writes("/proc/thread-self/comm", O_CREAT | O_TRUNC) == 0); /* as NVIDIA's driver opens it */
    return close(fd);
}

static int try_other_files(void)
{
    int r = enter_files();

    if (r) return r;
    FAILS(writes(at("new"), O_CREAT), EACCES);
    FAILS(writes(at("other"), 0), EACCES);
    FAILS(writes(at("model"), 0), EACCES);
    FAILS(writes(at("run/new"), O_CREAT), EACCES);
    FAILS(reads(at("other")), EACCES);
    FAILS(reads("/etc/passwd"), EACCES);
    FAILS(writes("/proc/self/comm", 0), EACCES);
    FAILS(unlink(at("other")), EACCES);
    FAILS(mkdir(at("dir"), 0700), EACCES);
    FAILS(mkdir(at("nowhere"), 0700), EACCES);
    EXPECT(rename(at("other"), at("state/other")) < 0);
    FAILS(symlink("x", at("state/x")), EACCES);
    FAILS(mkfifo(at("state/x"), 0600), EACCES);
    FAILS(reads(at("above/file")), EACCES);
    FAILS(execl("/bin/true", "true", NULL), EACCES);
    return 0;
}

static void test_files(void **state)
{
    const char *const dirs[] = {"state", "run", "above"};

    for (size_t i = 0; i < 3; i++) assert_int_equal(mkdir(at(dirs[i]), 0700), 0);
    make("model");
    make("other");
    make("above/file");
    make("run/h.sock");
    make("one.file");
    assert_int_equal(symlink(at("model"), at("link")), 0);
    check(try_own_files);
    check(try_other_files);
}

static int enter_calls(void)
{
    int r = sandbox_calls();

    return r == -ENOSYS || r == -EINVAL ? NO_KERNEL : r;
}

static int try_refused_calls(void)
{
    int r = enter_calls();

    if (r) return r;
    FAILS(execl("/bin/true", "true", NULL), EPERM);
    FAILS(fork(), EPERM);
    FAILS(setuid(getuid()), EPERM);
    FAILS(syscall(SYS_seccomp, 0, 0, NULL), ENOSYS);
    FAILS(syscall(425 /* io_uring_setup */, 1, NULL), ENOSYS);
    FAILS(syscall(100000), ENOSYS);
    return 0;
}

/* Commands of a terminal, a network interface, the driver of a GPU, and its socket. */
static int try_ioctl(void)
{
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC), r = enter_calls();

    if (r) return r;
    FAILS(ioctl(zero, TCGETS, NULL), ENOTTY);
    FAILS(ioctl(zero, TIOCSTI, "x"), EPERM);
    FAILS(ioctl(zero, SIOCGIFCONF, NULL), EPERM);
    FAILS(ioctl(zero, _IOWR('F', 42, char[32]), NULL), EPERM);
    FAILS(ioctl(zero, 27, NULL), EPERM);
    FAILS(ioctl(zero, 0x30000001, NULL), EPERM);
    FAILS(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), EPERM);
    return 0;
}

static int try_device_ioctl(void)
{
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC), r = sandbox_calls_device();

    if (r) return r == -ENOSYS || r == -EINVAL ? NO_KERNEL : r;
    FAILS(ioctl(zero, TCGETS, NULL), ENOTTY);
    FAILS(ioctl(zero, _IOWR('F', 42, char[32]), NULL), ENOTTY);
    FAILS(ioctl(zero, 27, NULL), ENOTTY);
    FAILS(ioctl(zero, 0x30000001, NULL), ENOTTY);
    FAILS(ioctl(zero, TIOCSTI, "x"), EPERM);
    FAILS(ioctl(zero, SIOCGIFCONF, NULL), EPERM);
    FAILS(ioctl(zero, 0x40000001, NULL), EPERM);
    FAILS(execl("/bin/true", "true", NULL), EPERM);
    FAILS(syscall(100000), ENOSYS);
    return 0;
}

/* The driver binds a socket to an abstract name; it can make no other and connect to nothing. */
static int try_device_socket(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                                 (size_t)snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "hob-test-%d", (int)getpid()));
    int r = sandbox_calls_device(), fd;

    if (r) return r == -ENOSYS || r == -EINVAL ? NO_KERNEL : r;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT(fd >= 0 && bind(fd, (struct sockaddr *)&a, size) == 0 && listen(fd, 1) == 0);
    FAILS(connect(fd, (struct sockaddr *)&a, size), EPERM);
    FAILS(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), EPERM);
    FAILS(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), EPERM);
    FAILS(socket(AF_INET6, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), EPERM);
    FAILS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, (int[2]){0}), EPERM);
    return 0;
}

static void *in_thread(void *arg)
{
    return arg;
}

static int try_allowed_calls(void)
{
    int r = enter_calls();
    struct rlimit limit;
    pthread_t t;
    void *said, *m;

    if (r) return r;
    EXPECT(pthread_create(&t, NULL, in_thread, &r) == 0 && pthread_join(t, &said) == 0 && said == &r);
    m = mmap(NULL, 1 << 24, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(m != MAP_FAILED && madvise(m, 1 << 24, MADV_DONTNEED) == 0 && munmap(m, 1 << 24) == 0);
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    isatty(0);
    return 0;
}

static void test_calls(void **state)
{
    check(try_refused_calls);
    check(try_allowed_calls);
    check(try_ioctl);
    check(try_device_ioctl);
    check(try_device_socket);
}

/* Its words go to a file, which the parent reads. */
static int try_ptrace(void)
{
    int fd = open(at("said"), O_CREAT | O_WRONLY, 0600), r;

    dup2(fd, STDERR_FILENO);
    r = enter_calls();
    if (r) return r;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    return 1;
}

static void test_hostile_call_is_the_end(void **state)
{
    char said[256] = "", number[32];
    int r = child_run(try_ptrace), fd;

    if (r == NO_KERNEL) {
        print_message("skipped: this kernel has no seccomp filters\n");
        skip();
    }
    assert_int_equal(r, -SIGSYS);
    fd = open(at("said"), O_RDONLY);
    assert_true(read(fd, said, sizeof said - 1) > 0);
    close(fd);
    assert_int_equal(strncmp(said, "hobd: ", 6), 0);
    snprintf(number, sizeof number, "number %d\n", (int)SYS_ptrace);
    assert_non_null(strstr(said, number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_call_is_the_end, setup, teardown),
    };

    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
