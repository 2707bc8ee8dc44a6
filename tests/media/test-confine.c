/* SPDX-License-Identifier: MIT */
/* Ways out of a decoder, each tried in a child. */
#include "daemon/media/decode/confine.h"
#include "daemon/media/decoder-run.h"
#include "libcommon/error.h"
#include "libcommon/sandbox.h"
#include "tests/io/child.h"
#include "tests/libcommon/check.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int enter(void)
{
    int r = confine_limits(0);
    if (r == 0) r = confine_calls();
    return r == -ENOSYS || r == -EINVAL || r == -EOPNOTSUPP ? NO_KERNEL : r;
}

/* The call that a child makes; it must not return. */
static long (*forbidden)(void);

static int child(void)
{
    int r = enter();
    if (r) return r;
    forbidden();
    return 1;
}

#define CALL(name, call)                                                                                               \
    static long name(void)                                                                                             \
    {                                                                                                                  \
        return (call);                                                                                                 \
    }

CALL(opens, open("/etc/passwd", O_RDONLY | O_CLOEXEC))
CALL(creates, open("/tmp/hob-test-confine", O_WRONLY | O_CREAT, 0600))
CALL(opens_tree, syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", NULL, 0))
CALL(connects, socket(AF_INET, SOCK_STREAM, 0))
CALL(connects_here, socket(AF_UNIX, SOCK_STREAM, 0))
CALL(pairs, socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0}))
CALL(pipes, pipe((int[2]){0}))
CALL(doubles, dup(0))
CALL(forks, fork())
CALL(executes, execl("/bin/true", "true", NULL))
CALL(kills, kill(getppid(), 0))
CALL(traces, syscall(SYS_ptrace, 0, 0, 0, 0))
CALL(looks, syscall(SYS_newfstatat, AT_FDCWD, "/", &(char[256]){0}, 0))
CALL(renames_itself, prctl(PR_SET_NAME, "x"))
CALL(raises_limits, setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}))
CALL(makes_memory, syscall(SYS_memfd_create, "x", 0))
CALL(shares, syscall(SYS_shmget, 1, 4096, 0))
CALL(rings, syscall(425 /* io_uring_setup */, 1, NULL))
CALL(leaves, unshare(CLONE_NEWUSER))
CALL(sends, sendto(0, "x", 1, 0, NULL, 0))

static void test_forbidden_calls_kill(void **state)
{
    long (*const all[])(void) = {opens,   creates, opens_tree,    connects,     connects_here, pairs, pipes,
                                 doubles, forks,   executes,      kills,        traces,        looks, renames_itself,
                                 shares,  rings,   raises_limits, makes_memory, leaves,        sends};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        forbidden = all[i];
        int r = child_run(child);
        if (r == NO_KERNEL) skip();
        /* kill() of others is refused by the second filter, or kills by this one. */
        if (r != -SIGSYS) print_error("call %zu: %d\n", i, r);
        assert_int_equal(r, -SIGSYS);
    }
}

static int try_refused(void)
{
    int r = enter();
    if (r) return r;
    FAILS(open("/etc/passwd", O_RDONLY), EPERM);
    FAILS(read(STDOUT_FILENO, &r, 1), EPERM);
    FAILS(write(STDERR_FILENO, "x", 1), EPERM);
    FAILS(syscall(SYS_tgkill, getpid() + 1, getpid() + 1, 0), EPERM);
    EXPECT(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EPERM);
    EXPECT(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, STDIN_FILENO, 0) == MAP_FAILED && errno == EPERM);
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(p != MAP_FAILED);
    FAILS(mprotect(p, 4096, PROT_READ | PROT_EXEC), EPERM);
    return 0;
}

static int try_memory(void)
{
    int r = enter();
    if (r) return r;
    void *some = malloc(512u << 20), *more = malloc(1u << 30);
    EXPECT(some && !more);
    free(some);
    return 0;
}

static int try_abort(void)
{
    int r = enter();
    if (r) return r;
    abort();
}

static int try_cpu(void)
{
    struct rlimit l;
    int r = confine_limits(0);
    if (r) return r;
    EXPECT(getrlimit(RLIMIT_CPU, &l) == 0 && l.rlim_cur == DECODER_CPU && l.rlim_max == DECODER_CPU + 1);
    EXPECT(getrlimit(RLIMIT_CORE, &l) == 0 && l.rlim_max == 0);
    EXPECT(getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_max == 0);
    FAILS(dup(0), EMFILE);
    return 0;
}

static void check(int (*fn)(void), int expected)
{
    int r = child_run(fn);
    if (r == NO_KERNEL) skip();
    assert_int_equal(r, expected);
}

static void test_refused_calls(void **state)
{
    check(try_refused, 0);
}

static void test_limits(void **state)
{
    check(try_cpu, 0);
    check(try_memory, 0);
}

static void test_abort(void **state)
{
    check(try_abort, -SIGABRT);
}

/* As a decoder that a file has taken over: this program opens a file. */
static void test_the_sentence(void **state)
{
    char *const argv[] = {"/proc/self/exe", "open", NULL};
    struct media_reply reply;
    int r = decoder_run(argv, (const uint8_t *)"fLaC", 4, DECODER_MS, -1, &reply);
    if (r == 0) {
        media_reply_fini(&reply);
        skip(); /* no seccomp */
    }
    assert_int_equal(r, -EBADMSG);
    assert_string_equal(error_text(r), "sound: FLAC: the decoder was killed for a forbidden system call");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forbidden_calls_kill),
        cmocka_unit_test(test_refused_calls),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_the_sentence),
    };
    if (argc > 1) {
        struct media_reply reply;
        forbidden = opens;
        media_reply_error(&reply, error_say(-EBADMSG, "%d", child()));
        return media_write(STDOUT_FILENO, &reply.head, sizeof(reply.head)) ||
               media_write(STDOUT_FILENO, reply.data, reply.head.size);
    }
    signal(SIGPIPE, SIG_IGN);
    if (sandbox_is_left_out()) {
        printf("skipped: a build with sanitizers has no sandbox\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
