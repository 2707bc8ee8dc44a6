/* SPDX-License-Identifier: MIT */
/*
 * The system calls that the sandbox allows. The filter is a constant program for the kernel's BPF machine, so loading
 * it allocates nothing. A rule tests the number of a call and returns the verdict; no rule jumps outside of itself.
 * Frequent calls come first, because kernels before 5.11 run through the rules at each call.
 *
 * A call without a rule fails with ENOSYS, so that libraries fall back as on an older kernel. A call that all kernels
 * have, or that is allowed with other arguments only, fails with EPERM. A call that only an attacker makes kills the
 * process.
 */
#include "daemon/io/sandbox.h"
#include "libcommon/error.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__LP64__)
#define ARCH    AUDIT_ARCH_X86_64
#define FOREIGN 0x40000000u /* the flag of x32 calls, which are another ABI of the same architecture */
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#define ARCH    AUDIT_ARCH_AARCH64
#define FOREIGN 0x80000000u /* no call has such a number */
#endif

#ifdef ARCH

enum { WHO_PROCESS = 1 /* IOPRIO_WHO_PROCESS */, REQ_XCOMP_PERM = 0x1023 /* ARCH_REQ_XCOMP_PERM */ };

/* The flags with which glibc creates a thread. */
#define THREAD                                                                                                         \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |                 \
     CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

#define STEP(code, k)                                                                                                  \
    {                                                                                                                  \
        (code), 0, 0, (k)                                                                                              \
    }
/* Skip @yes or @no instructions. */
#define IF(op, k, yes, no)                                                                                             \
    {                                                                                                                  \
        BPF_JMP | (op) | BPF_K, (yes), (no), (k)                                                                       \
    }
#define IF_IS(k, yes, no)  IF(BPF_JEQ, k, yes, no)
#define IF_ANY(k, yes, no) IF(BPF_JSET, k, yes, no) /* any bit of @k */
#define LOAD(field)        STEP(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* The halves of argument @n. For a descriptor, a command, a pid or flags, the kernel reads the low half only. */
#define LOW(n)  STEP(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define HIGH(n) STEP(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n) + 4)
#define YES     STEP(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define NO      STEP(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ABSENT  STEP(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)
#define END     STEP(BPF_RET | BPF_K, SECCOMP_RET_TRAP)

/* The next @n instructions are for @call; the last of them returns the verdict. */
#define RULE(call, n) IF_IS(__NR_##call, 0, n)
#define ALLOW(call)   RULE(call, 1), YES
#define REFUSE(call)  RULE(call, 1), NO
#define TRAP(call)    RULE(call, 1), END
/* Allowed if argument @a is @x. */
#define ALLOW_ONE(call, a, x) RULE(call, 4), LOW(a), IF_IS(x, 0, 1), YES, NO
/* … and argument @b is @y. */
#define ALLOW_TWO(call, a, x, b, y) RULE(call, 6), LOW(a), IF_IS(x, 0, 3), LOW(b), IF_IS(y, 0, 1), YES, NO
/* Allowed if the pointer @a is NULL. */
#define ALLOW_NULL(call, a) RULE(call, 6), LOW(a), IF_IS(0, 0, 3), HIGH(a), IF_IS(0, 0, 1), YES, NO

static const struct sock_filter program[] = {
    LOAD(arch),
    IF_IS(ARCH, 1, 0),
    END,
    LOAD(nr),
    IF(BPF_JGE, FOREIGN, 0, 1),
    END,
    /* frequent calls */
    ALLOW(futex),
    ALLOW(read),
    ALLOW(write),
    ALLOW_NULL(sendto, 4), /* on a connected socket */
    ALLOW(recvfrom),
    ALLOW(epoll_pwait),
#ifdef __NR_epoll_wait
    ALLOW(epoll_wait),
#endif
    ALLOW(sched_yield),
    ALLOW(clock_gettime),
    ALLOW(madvise),
    ALLOW(epoll_ctl),
    ALLOW(timerfd_settime),
    ALLOW(pread64),
    ALLOW(preadv),
    ALLOW(pwrite64),
    ALLOW(writev),
    ALLOW(close),
    ALLOW(newfstatat),
    ALLOW(fstat),
    /* Before version 3, landlock does not restrict O_TRUNC in an open for reading. */
    RULE(openat, 7),
    LOW(2),
    IF_ANY(O_TRUNC, 0, 3),
    STEP(BPF_ALU | BPF_AND | BPF_K, O_ACCMODE),
    IF_IS(O_WRONLY, 1, 0),
    IF_IS(O_RDWR, 0, 1),
    YES,
    NO,
    /* memory */
    ALLOW(brk),
    ALLOW(mmap),
    ALLOW(mprotect),
    ALLOW(mremap),
    ALLOW(munmap),
    /* Threads. The flags of clone3 are in memory, which a filter cannot read; if clone3 fails, glibc uses clone. */
    RULE(clone, 5),
    LOW(0),
    IF_ANY(CLONE_THREAD, 0, 2),
    IF_ANY(~(uint32_t)THREAD, 1, 0),
    YES,
    NO,
#ifdef __NR_arch_prctl
    ALLOW_ONE(arch_prctl, 0, REQ_XCOMP_PERM), /* AMX */
#endif
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(getcpu),
    ALLOW(getpid),
    ALLOW(gettid),
    ALLOW(restart_syscall),
    ALLOW(rseq),
    ALLOW(rt_sigaction),
    ALLOW(rt_sigprocmask),
    ALLOW(rt_sigreturn),
    ALLOW(set_robust_list),
    ALLOW(sigaltstack),
    ALLOW_ONE(prctl, 0, PR_SET_NAME),
    /* 0 is the calling thread */
    ALLOW_TWO(ioprio_set, 0, WHO_PROCESS, 1, 0),
    ALLOW_TWO(sched_setscheduler, 0, 0, 1, SCHED_IDLE),
    ALLOW_ONE(sched_setaffinity, 0, 0),
    ALLOW_TWO(setpriority, 0, PRIO_PROCESS, 1, 0),
    /* pthread_getattr_np passes a thread id and accepts ENOSYS. */
    RULE(sched_getaffinity, 4),
    LOW(0),
    IF_IS(0, 0, 1),
    YES,
    ABSENT,
    /* time and waiting */
    ALLOW(clock_nanosleep),
    ALLOW(epoll_pwait2),
    ALLOW(eventfd2),
    ALLOW(getrusage),
    ALLOW(gettimeofday),
    ALLOW(ppoll),
    ALLOW(signalfd4),
    ALLOW(timerfd_create),
    /* files: landlock restricts the paths */
    ALLOW(faccessat),
    ALLOW(faccessat2),
    ALLOW(fallocate),
    ALLOW(flock),
    ALLOW(fstatfs),
    ALLOW(fsync),
    ALLOW(ftruncate),
    ALLOW(getcwd),
    ALLOW(getdents64),
    ALLOW(linkat),
    ALLOW(lseek),
    ALLOW(mkdirat),
    ALLOW(readlinkat),
    ALLOW(renameat),
    ALLOW(renameat2),
    ALLOW(statfs),
    ALLOW(statx),
    ALLOW(sync_file_range),
    ALLOW(unlinkat),
    ALLOW_NULL(utimensat, 1),    /* by descriptor */
    ALLOW_ONE(ioctl, 1, TCGETS), /* isatty */
    RULE(fcntl, 11),             /* not F_SETOWN, F_SETSIG and O_ASYNC, which send signals; no leases */
    LOW(1),
    IF_IS(F_DUPFD, 7, 0),
    IF_IS(F_DUPFD_CLOEXEC, 6, 0),
    IF_IS(F_GETFD, 5, 0),
    IF_IS(F_SETFD, 4, 0),
    IF_IS(F_GETFL, 3, 0),
    IF_IS(F_SETFL, 0, 3),
    LOW(2),
    IF_ANY(O_ASYNC, 1, 0),
    YES,
    NO,
    /* Existing sockets, and those that they accept. No recvmsg: a peer could pass descriptors. */
    ALLOW(accept4),
    ALLOW_TWO(getsockopt, 1, SOL_SOCKET, 2, SO_PEERCRED),
    /* the process and the machine */
    ALLOW(getegid),
    ALLOW(geteuid),
    ALLOW(getgid),
    ALLOW(getgroups),
    ALLOW(getrandom),
    ALLOW(getuid),
    ALLOW(sysinfo),
    ALLOW(tgkill),      /* own_threads restricts it further */
    RULE(prlimit64, 8), /* reading the process's own limits */
    LOW(0),
    IF_IS(0, 0, 5),
    LOW(2),
    IF_IS(0, 0, 3),
    HIGH(2),
    IF_IS(0, 0, 1),
    YES,
    NO,
#ifdef __NR_mkdir /* calls that newer architectures do not have */
    ALLOW(mkdir),
    ALLOW(poll),
    ALLOW(readlink),
    ALLOW(rename),
    ALLOW(rmdir),
    ALLOW(time),
    ALLOW(unlink),
    REFUSE(chmod),
    REFUSE(chown),
    REFUSE(creat),
    REFUSE(fork),
    REFUSE(futimesat),
    REFUSE(lchown),
    REFUSE(mknod),
    REFUSE(symlink),
    REFUSE(utime),
    REFUSE(utimes),
    REFUSE(vfork),
#endif
    /* sockets */
    REFUSE(accept),
    REFUSE(bind),
    REFUSE(connect),
    REFUSE(listen),
    REFUSE(recvmmsg),
    REFUSE(recvmsg),
    REFUSE(sendmmsg),
    REFUSE(sendmsg),
    REFUSE(setsockopt),
    REFUSE(socket),
    REFUSE(socketpair),
    /* other processes and threads */
    REFUSE(execve),
    REFUSE(execveat),
    REFUSE(getpriority),
    REFUSE(ioprio_get),
    REFUSE(kill),
    REFUSE(rt_sigqueueinfo),
    REFUSE(rt_tgsigqueueinfo),
    REFUSE(sched_getattr),
    REFUSE(sched_getparam),
    REFUSE(sched_getscheduler),
    REFUSE(sched_setattr),
    REFUSE(sched_setparam),
    REFUSE(timer_create),
    REFUSE(tkill),
    /* files */
    REFUSE(chdir),
    REFUSE(chroot),
    REFUSE(copy_file_range),
    REFUSE(fchdir),
    REFUSE(fchmod),
    REFUSE(fchmodat),
    REFUSE(fchown),
    REFUSE(fchownat),
    REFUSE(mknodat),
    REFUSE(mount),
    REFUSE(setxattr),
    REFUSE(symlinkat),
    REFUSE(truncate),
    /* the identity of the process */
    REFUSE(acct),
    REFUSE(capset),
    REFUSE(memfd_create),
    REFUSE(mlock),
    REFUSE(mlock2),
    REFUSE(mlockall),
    REFUSE(personality),
    REFUSE(setgid),
    REFUSE(setgroups),
    REFUSE(sethostname),
    REFUSE(setns),
    REFUSE(setregid),
    REFUSE(setresgid),
    REFUSE(setresuid),
    REFUSE(setreuid),
    REFUSE(setrlimit),
    REFUSE(setsid),
    REFUSE(settimeofday),
    REFUSE(setuid),
    REFUSE(unshare),
    /* calls that only an attacker makes */
    TRAP(add_key),
    TRAP(bpf),
    TRAP(delete_module),
    TRAP(finit_module),
    TRAP(fsmount),
    TRAP(init_module),
    TRAP(kcmp),
    TRAP(kexec_file_load),
    TRAP(kexec_load),
    TRAP(keyctl),
    TRAP(move_mount),
    TRAP(open_by_handle_at),
    TRAP(open_tree),
    TRAP(perf_event_open),
    TRAP(pidfd_getfd),
    TRAP(pivot_root),
    TRAP(process_madvise),
    TRAP(process_vm_readv),
    TRAP(process_vm_writev),
    TRAP(ptrace),
    TRAP(reboot),
    TRAP(request_key),
    TRAP(swapoff),
    TRAP(swapon),
    TRAP(umount2),
    TRAP(userfaultfd),
    ABSENT,
};

/* Log the number of the call; then the signal has its default effect. */
static void on_sigsys(int sig, siginfo_t *info, void *context)
{
    static const char before[] = "hobd: the sandbox kills this process for a forbidden system call, number ";
    char line[sizeof before + 16];
    size_t n = sizeof before - 1;
    unsigned call = (unsigned)info->si_syscall, unit = 1;
    memcpy(line, before, n);
    while (unit < 1000000000 && call / unit >= 10) unit *= 10;
    for (; unit; unit /= 10) line[n++] = (char)('0' + call / unit % 10);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0) n = 0;
    raise(sig); /* SA_RESETHAND: delivered when this function returns */
}

static int load(const struct sock_filter *filter, size_t n)
{
    const struct sock_fprog p = {(unsigned short)n, (struct sock_filter *)filter};
    return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0 ? -errno : 0;
}

/* Allow signals to threads of this process only, as abort and raise send them. The kernel applies the stricter of two
 * filters, so this filter, which contains the only value unknown at compile time, is separate. */
static int load_own_threads(void)
{
    const struct sock_filter own_threads[] = {
        LOAD(nr), IF_IS(__NR_tgkill, 0, 3), LOW(0), IF_IS((uint32_t)getpid(), 1, 0), NO, YES};

    return load(own_threads, sizeof own_threads / sizeof *own_threads);
}

int sandbox_calls(void)
{
    const struct sigaction act = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
    int r = sigaction(SIGSYS, &act, NULL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
    if (r == 0) r = load_own_threads();
    if (r == 0) r = load(program, sizeof program / sizeof *program);
    return r < 0 ? error_say(r, "seccomp: %s", strerror(-r)) : 0;
}

#else

int sandbox_calls(void)
{
    return error_say(-EOPNOTSUPP, "seccomp: hobd has no filter for this architecture");
}

#endif
