/* SPDX-License-Identifier: MIT */
/*
 * Ways out of the sandbox: to other programs' sockets, to other processes, to files by their path. Each way is tried in
 * children, with the filter of calls alone, with it and landlock's first version, and with it and all that landlock
 * has.
 */
#include "daemon/io/sandbox-calls.h"
#include "libcommon/sandbox.h"
#include "tests/io/child.h"
#include "tests/support/folder.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { NONE = 0, NEWEST = 1000, SCOPES = 6 /* landlock's version that has them */ };

struct address {
    struct sockaddr_un name;
    socklen_t size;
};

static char root[FOLDER_PATH];
static struct address stream, datagram, abstract_stream, abstract_datagram;
static int sockets[4]; /* the parent's, bound to these */
static int landlock;   /* the version whose rules a child takes, NONE: none */

static struct address address_of(const char *name)
{
    struct address a = {.name.sun_family = AF_UNIX};
    size_t n = strlen(name);

    memcpy(a.name.sun_path, name, n);
    if (*name == '@') a.name.sun_path[0] = 0;
    a.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    return a;
}

#define AT(a) (const struct sockaddr *)&(a).name, (a).size

static int bound(const struct address *a, int type)
{
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_int_equal(bind(fd, AT(*a)), 0);
    if (type == SOCK_STREAM) assert_int_equal(listen(fd, 16), 0);
    return fd;
}

static int setup(void **state)
{
    char name[64];

    if (folder_make(root, "escapes")) return -1;
    snprintf(name, sizeof name, "@hob-test-escapes-%d-stream", (int)getpid());
    abstract_stream = address_of(name);
    snprintf(name, sizeof name, "@hob-test-escapes-%d-datagram", (int)getpid());
    abstract_datagram = address_of(name);
    stream = address_of(folder_at(root, "stream"));
    datagram = address_of(folder_at(root, "datagram"));
    sockets[0] = bound(&stream, SOCK_STREAM);
    sockets[1] = bound(&datagram, SOCK_DGRAM);
    sockets[2] = bound(&abstract_stream, SOCK_STREAM);
    sockets[3] = bound(&abstract_datagram, SOCK_DGRAM);
    return folder_put(root, "other", "text");
}

static int teardown(void **state)
{
    for (int i = 0; i < 4; i++) close(sockets[i]);
    return folder_remove(root);
}

#define REFUSED(call) FAILS(call, EPERM)
#define ABSENT(call)  FAILS(call, ENOSYS)

static int enter_files(void)
{
    const struct sandbox_path paths[] = {{root, SANDBOX_READ}};
    int r = sandbox_files_abi(&(struct sandbox){.paths = paths, .n_paths = 1}, landlock);

    return r == -ENOSYS || r == -EOPNOTSUPP ? NO_KERNEL : r;
}

static int enter(void)
{
    int r = landlock == NONE ? 0 : enter_files();

    if (r == 0) r = sandbox_calls();
    return r == -ENOSYS || r == -EINVAL || r == -EOPNOTSUPP ? NO_KERNEL : r;
}

static void check(int (*fn)(void), int version, int expected)
{
    int r;

    landlock = version;
    r = child_run(fn);
    if (r == NO_KERNEL && version > NONE) {
        print_message("# this kernel has no landlock\n");
        return;
    }
    if (r == NO_KERNEL) {
        print_message("skipped: this kernel has no seccomp filters\n");
        skip();
    }
    if (r != expected) print_message("# with version %d of landlock, 0: none\n", version);
    assert_int_equal(r, expected);
}

static void check_all(int (*fn)(void), int expected)
{
    check(fn, NONE, expected);
    check(fn, 1, expected);
    check(fn, NEWEST, expected);
}

static int try_connect(void)
{
    int s = socket(AF_UNIX, SOCK_STREAM, 0), a = socket(AF_UNIX, SOCK_STREAM, 0), d = socket(AF_UNIX, SOCK_DGRAM, 0);
    int pair[2], r = enter();
    struct sockaddr none = {.sa_family = AF_UNSPEC};

    if (r) return r;
    REFUSED(connect(s, AT(stream)));
    REFUSED(connect(a, AT(abstract_stream)));
    REFUSED(connect(d, AT(datagram)));
    REFUSED(connect(d, AT(abstract_datagram)));
    REFUSED(connect(d, &none, sizeof none));
    REFUSED(bind(s, AT(stream)));
    REFUSED(listen(s, 1));
    REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
    REFUSED(socket(AF_UNIX, SOCK_DGRAM, 0));
    REFUSED(socket(AF_INET, SOCK_STREAM, 0));
    REFUSED(socket(AF_NETLINK, SOCK_RAW, 0));
    REFUSED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    return 0;
}

static int try_send(void)
{
    int d = socket(AF_UNIX, SOCK_DGRAM, 0), c = socket(AF_UNIX, SOCK_DGRAM, 0), one = 1, r;
    struct iovec v = {"x", 1};
    struct msghdr m = {.msg_name = &datagram.name, .msg_namelen = datagram.size, .msg_iov = &v, .msg_iovlen = 1};
    struct mmsghdr mm = {.msg_hdr = m};

    EXPECT(connect(c, AT(abstract_datagram)) == 0);
    r = enter();
    if (r) return r;
    REFUSED(sendto(d, "x", 1, 0, AT(datagram)));
    REFUSED(sendto(d, "x", 1, 0, AT(abstract_datagram)));
    REFUSED(sendto(c, "x", 1, 0, AT(datagram)));
    REFUSED(syscall(SYS_sendto, c, "x", 1, 0, (uintptr_t)1 << 32, datagram.size));
    REFUSED(sendmsg(d, &m, 0));
    REFUSED(sendmmsg(d, &mm, 1, 0));
    m.msg_name = NULL;
    m.msg_namelen = 0;
    REFUSED(sendmsg(c, &m, 0));            /* it could hand over descriptors */
    REFUSED(recvmsg(c, &m, MSG_DONTWAIT)); /* only with MSG_CMSG_CLOEXEC */
    EXPECT(recvmsg(c, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0 && errno == EAGAIN);
    REFUSED(recv(c, (char[1]){0}, 1, MSG_DONTWAIT));
    REFUSED(recvmmsg(c, &mm, 1, MSG_DONTWAIT, NULL));
    REFUSED(setsockopt(c, SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    REFUSED(getsockopt(c, SOL_SOCKET, SO_TYPE, &one, &(socklen_t){sizeof one}));
    EXPECT(send(c, "x", 1, MSG_NOSIGNAL) == 1);
    EXPECT(write(c, "x", 1) == 1);
    return 0;
}

static void test_sockets(void **state)
{
    check_all(try_connect, 0);
    check_all(try_send, 0);
}

static int try_processes(void)
{
    pid_t parent = getppid();
    siginfo_t info = {.si_code = SI_QUEUE};
    struct rlimit limit = {0};
    int r = enter();

    if (r) return r;
    REFUSED(kill(parent, 0));
    REFUSED(kill(0, 0));
    REFUSED(kill(-1, 0));
    REFUSED(syscall(SYS_tgkill, parent, parent, 0));
    REFUSED(syscall(SYS_tkill, parent, 0));
    REFUSED(syscall(SYS_rt_sigqueueinfo, parent, 0, &info));
    REFUSED(syscall(SYS_rt_tgsigqueueinfo, parent, parent, 0, &info));
    ABSENT(syscall(SYS_pidfd_open, parent, 0));
    ABSENT(syscall(SYS_pidfd_send_signal, 0, 0, NULL, 0));
    ABSENT(syscall(448 /* process_mrelease */, 0, 0));
    REFUSED(prlimit(parent, RLIMIT_NOFILE, NULL, &limit));
    REFUSED(prlimit(0, RLIMIT_CORE, &limit, NULL));
    REFUSED(syscall(SYS_prlimit64, 0, RLIMIT_CORE, (uintptr_t)1 << 32, NULL));
    ABSENT(syscall(435 /* clone3 */, NULL, 0));
    REFUSED(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    REFUSED(syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_FS | CLONE_NEWNS, 0, 0, 0, 0));
    REFUSED(prctl(PR_SET_DUMPABLE, 1));
    REFUSED(prctl(PR_SET_PTRACER, parent));
    return 0;
}

/* Values that the kernel refuses, in case the sandbox does not: the call would reach processes outside of this test. */
enum { NOBODY = 0x7ffffff0, NO_CLASS = 7 << 13 };

static int try_scheduling(void)
{
    const struct sched_param low = {0};
    uint32_t attr[14] = {sizeof attr}; /* struct sched_attr */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
    pid_t parent = getppid();
    cpu_set_t set;
    int timer, r;

    EXPECT(sched_getaffinity(0, sizeof set, &set) == 0);
    r = enter();
    if (r) return r;
    REFUSED(setpriority(PRIO_PROCESS, (id_t)parent, 19));
    REFUSED(setpriority(PRIO_USER, NOBODY, 19));
    REFUSED(getpriority(PRIO_PROCESS, (id_t)parent));
    REFUSED(sched_setaffinity(parent, sizeof set, &set));
    ABSENT(sched_getaffinity(parent, sizeof set, &set));
    REFUSED(sched_setscheduler(parent, SCHED_IDLE, &low));
    REFUSED(sched_setscheduler(0, SCHED_BATCH, &low));
    REFUSED(sched_setparam(parent, &low));
    REFUSED(syscall(SYS_sched_setattr, parent, attr, 0));
    REFUSED(syscall(SYS_sched_getattr, parent, attr, sizeof attr, 0));
    REFUSED(syscall(SYS_ioprio_set, 1 /* a process */, parent, 3 << 13));
    REFUSED(syscall(SYS_ioprio_set, 2 /* a process group */, 0, NO_CLASS));
    REFUSED(syscall(SYS_ioprio_set, 3 /* a user */, 0, NO_CLASS));
    REFUSED(syscall(SYS_ioprio_get, 1, parent));
    REFUSED(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer));
    return 0;
}

static void test_processes(void **state)
{
    check_all(try_processes, 0);
    check_all(try_scheduling, 0);
}

static int try_descriptors(void)
{
    struct f_owner_ex owner = {F_OWNER_PID, getppid()};
    int on = 1, pid = getppid(), pair[2], dir = open(root, O_RDONLY | O_DIRECTORY), r;

    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && dir >= 0);
    r = enter();
    if (r) return r;
    REFUSED(fcntl(pair[0], F_SETOWN, pid));
    REFUSED(fcntl(pair[0], F_SETOWN_EX, &owner));
    REFUSED(fcntl(pair[0], F_SETSIG, SIGURG));
    REFUSED(fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    REFUSED(fcntl(dir, F_NOTIFY, DN_MODIFY));
    REFUSED(fcntl(dir, F_SETLEASE, F_RDLCK));
    REFUSED(ioctl(pair[0], FIOASYNC, &on));
    REFUSED(ioctl(pair[0], FIOSETOWN, &pid));
    REFUSED(ioctl(pair[0], SIOCSPGRP, &pid));
    REFUSED(ioctl(0, TIOCSTI, "x"));
    REFUSED(fchdir(dir));
    REFUSED(fchmod(dir, 0777));
    EXPECT(fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(pair[0], F_GETFL) == (O_RDWR | O_NONBLOCK));
    EXPECT(fcntl(pair[0], F_SETFD, FD_CLOEXEC) == 0 && fcntl(pair[0], F_GETFD) == FD_CLOEXEC);
    EXPECT(fcntl(pair[0], F_DUPFD, 10) >= 10 && fcntl(pair[0], F_DUPFD_CLOEXEC, 10) >= 10);
    return 0;
}

static int try_paths(void)
{
    const struct timespec times[2] = {{0}, {0}};
    struct stat st;
    char path[FOLDER_PATH + 16];
    int fd, r;

    snprintf(path, sizeof path, "%s/other", root);
    fd = open(path, O_RDWR);
    EXPECT(fd >= 0);
    r = enter();
    if (r) return r;
    REFUSED(utimensat(AT_FDCWD, path, times, 0));
    REFUSED(syscall(SYS_utimensat, fd, (uintptr_t)1 << 32, times, 0));
    REFUSED(utimes(path, NULL));
    REFUSED(chdir(root));
    REFUSED(chmod(path, 0777));
    REFUSED(truncate(path, 0));
    REFUSED(open(path, O_RDONLY | O_TRUNC));
    REFUSED(open(path, O_ACCMODE | O_TRUNC));
    EXPECT(fstat(fd, &st) == 0 && st.st_size == 4);
    EXPECT(open(path, O_RDONLY) >= 0);
    EXPECT(futimens(fd, times) == 0 && ftruncate(fd, 4) == 0);
    REFUSED(syscall(SYS_memfd_create, "x", 0));
    return 0;
}

static void test_descriptors_and_paths(void **state)
{
    check_all(try_descriptors, 0);
    check_all(try_paths, 0);
}

/* What landlock holds by itself: sockets without a file and signals, if its version has scopes. */
static int try_scopes(void)
{
    int s = socket(AF_UNIX, SOCK_STREAM, 0), d = socket(AF_UNIX, SOCK_DGRAM, 0), c = socket(AF_UNIX, SOCK_DGRAM, 0);
    int r;

    EXPECT(connect(c, AT(abstract_datagram)) == 0);
    r = enter_files();
    if (r) return r;
    EXPECT(send(c, "x", 1, MSG_NOSIGNAL) == 1);
    EXPECT(raise(0) == 0);
    if (landlock < SCOPES) {
        EXPECT(connect(s, AT(abstract_stream)) == 0);
        EXPECT(sendto(d, "x", 1, 0, AT(abstract_datagram)) == 1);
        EXPECT(kill(getppid(), 0) == 0);
    } else {
        REFUSED(connect(s, AT(abstract_stream)));
        REFUSED(sendto(d, "x", 1, 0, AT(abstract_datagram)));
        REFUSED(connect(d, AT(abstract_datagram)));
        REFUSED(kill(getppid(), 0));
    }
    return 0;
}

static void test_scopes(void **state)
{
    long version = syscall(444 /* landlock_create_ruleset */, NULL, 0, 1);

    check(try_scopes, SCOPES - 1, 0);
    if (version >= SCOPES) {
        check(try_scopes, NEWEST, 0);
    } else {
        print_message("skipped: this kernel's landlock has no scopes\n");
        skip();
    }
}

static void *in_thread(void *arg)
{
    pthread_attr_t attr;
    cpu_set_t set;
    int *done = arg;

    *done = pthread_getattr_np(pthread_self(), &attr) == 0 && pthread_attr_destroy(&attr) == 0 &&
            pthread_setname_np(pthread_self(), "test") == 0 &&
            sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}) == 0 &&
            syscall(SYS_ioprio_set, 1, 0, 3 << 13) == 0 && sched_getaffinity(0, sizeof(set), &set) == 0 &&
            sched_setaffinity(0, sizeof(set), &set) == 0 && setpriority(PRIO_PROCESS, 0, 19) == 0;
    return arg;
}

/* The event loop's calls and those of threads. */
static int try_work(void)
{
    int l = sockets[0], e = epoll_create1(0), s = socket(AF_UNIX, SOCK_STREAM, 0), fd, done = 0, r;
    const struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    struct epoll_event event = {.events = EPOLLIN};
    struct ucred who;
    socklen_t n = sizeof who;
    cpu_set_t cpus;
    pthread_t t;
    sigset_t set;
    char byte;
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

    EXPECT(connect(s, AT(stream)) == 0);
    r = enter();
    if (r) return r;
    EXPECT((fd = accept4(l, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
    EXPECT(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.pid == getpid());
    EXPECT(send(s, "x", 1, MSG_NOSIGNAL) == 1 && recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == 1);
    EXPECT((fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) >= 0 && timerfd_settime(fd, 0, &soon, NULL) == 0);
    EXPECT(epoll_ctl(e, EPOLL_CTL_ADD, fd, &event) == 0 && epoll_wait(e, &event, 1, 10000) == 1);
    EXPECT(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1);
    EXPECT(eventfd(0, EFD_CLOEXEC) >= 0);
    EXPECT(sigemptyset(&set) == 0 && signalfd(-1, &set, SFD_CLOEXEC) >= 0);
    EXPECT(getrandom(&byte, 1, 0) == 1);
    EXPECT(clock_nanosleep(CLOCK_MONOTONIC, 0, &soon.it_value, NULL) == 0);
    EXPECT(sched_getaffinity(0, sizeof cpus, &cpus) == 0 && sysconf(_SC_NPROCESSORS_ONLN) > 0);
    EXPECT(pthread_create(&t, NULL, in_thread, &done) == 0 && pthread_join(t, NULL) == 0);
    EXPECT(done);
    return 0;
}

static void *abort_in_thread(void *arg)
{
    abort();
}

/* A failed assertion ends the process by its usual signal. */
static int try_abort(void)
{
    pthread_t t;
    int r = enter();

    if (r) return r;
    EXPECT(pthread_create(&t, NULL, abort_in_thread, NULL) == 0 && pthread_join(t, NULL) == 0);
    return 1;
}

static void test_work(void **state)
{
    check_all(try_work, 0);
    check_all(try_abort, -SIGABRT);
}

#ifdef __x86_64__
/* The signal's handler writes a message, which is not for the reader of this test. */
static int enter_quietly(void)
{
    int fd = open("/dev/null", O_WRONLY);

    return fd < 0 || dup2(fd, STDERR_FILENO) < 0 ? 1 : enter();
}

static int try_x32(void)
{
    int r = enter_quietly();

    return r ? r : (int)syscall(0x40000000 | SYS_getpid);
}

static int try_i386(void)
{
    long r = enter_quietly();

    if (r) return (int)r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L /* getpid */) : "r8", "r9", "r10", "r11", "memory");
    return 1;
}
#endif

/* The same numbers mean other calls in another ABI of the same architecture. */
static void test_foreign_abi(void **state)
{
#ifdef __x86_64__
    check(try_x32, NONE, -SIGSYS);
    landlock = NONE;
    int r = child_run(try_i386);
    assert_true(r == -SIGSYS || r == -SIGSEGV || r == NO_KERNEL); /* SIGSEGV: the kernel does not have it */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sockets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_descriptors_and_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scopes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_abi, setup, teardown),
    };

    return cmocka_run_group_tests_name("sandbox-escapes", tests, NULL, NULL);
}
