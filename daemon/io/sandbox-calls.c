/* SPDX-License-Identifier: MIT */
/* The system calls that the sandbox of hobd allows. */
#include "daemon/io/sandbox-calls.h"
#include "libcommon/error.h"
#include "libcommon/sandbox-rules.h"
#include "libcommon/sandbox.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef SANDBOX_ARCH

enum { WHO_PROCESS = 1 /* IOPRIO_WHO_PROCESS */, REQ_XCOMP_PERM = 0x1023 /* ARCH_REQ_XCOMP_PERM */ };

/* The flags with which glibc creates a thread. */
#define THREAD                                                                                                         \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |                 \
     CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

static const struct sock_filter begin[] = {SANDBOX_BEGIN};

/*
 * The driver of a GPU talks to its devices with ioctl: those of nvidia and nvidiactl are _IOWR('F', number, size),
 * those of nvidia-uvm are plain numbers below 128, but for the first and the last one of a process. No other file that
 * hobd has open takes such a command: a terminal's begin with 'T', a socket's with 0x89.
 */
enum { RM = 'F' << 8, UVM_LAST = 127, UVM_INITIALIZE = 0x30000001, UVM_DEINITIALIZE = 0x30000002 };

static const struct sock_filter device[] = {
    RULE(ioctl, 9),
    LOW(1),
    IF_IS(TCGETS, 5, 0),
    IF_IS(UVM_INITIALIZE, 4, 0),
    IF_IS(UVM_DEINITIALIZE, 3, 0),
    IF(BPF_JGT, UVM_LAST, 0, 2),
    STEP(BPF_ALU | BPF_AND | BPF_K, 0xff00),
    IF_IS(RM, 0, 1),
    YES,
    NO,
    /* others of its calls */
    ALLOW(dup),
    ALLOW(get_mempolicy),
    ALLOW(pipe2),
    ALLOW(sched_getaffinity), /* the driver asks for its threads by their numbers */
    ALLOW(sched_get_priority_max),
    ALLOW(sched_get_priority_min),
    ALLOW(uname),
    /* The driver does not start without a socket of its own, which it binds to an abstract name. Landlock refuses a
     * name in a directory, and connect is refused below. */
    ALLOW_TWO(socket, 0, AF_UNIX, 1, SOCK_SEQPACKET | SOCK_CLOEXEC),
    ALLOW(bind),
    ALLOW(listen),
#ifdef __NR_stat
    ALLOW(access),
    ALLOW(stat),
#endif
};

static const struct sock_filter program[] = {
    /* frequent calls */
    ALLOW(futex),
    ALLOW(read),
    ALLOW(write),
    ALLOW_NULL(sendto, 4),                                  /* on a connected socket */
    ALLOW_ONE(recvmsg, 2, MSG_DONTWAIT | MSG_CMSG_CLOEXEC), /* peers pass files */
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
    ALLOW(set_mempolicy),
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
    SANDBOX_FCNTL,
    /* existing sockets, and those that they accept */
    ALLOW(accept4),
    ALLOW(shutdown),
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
    REFUSE(recvfrom),
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
    SANDBOX_TRAPS,
    ABSENT,
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Load the rules @more before those of all. */
static int load(const struct sock_filter *more, size_t n)
{
    struct sock_filter all[COUNT(begin) + COUNT(device) + COUNT(program)];
    memcpy(all, begin, sizeof begin);
    if (n) memcpy(all + COUNT(begin), more, n * sizeof *more);
    memcpy(all + COUNT(begin) + n, program, sizeof program);
    return sandbox_load("hobd", all, COUNT(begin) + n + COUNT(program));
}

int sandbox_calls(void)
{
    return load(NULL, 0);
}

int sandbox_calls_device(void)
{
    return load(device, COUNT(device));
}

#else

int sandbox_calls(void)
{
    return error_say(-EOPNOTSUPP, "seccomp: hobd has no filter for this architecture");
}

int sandbox_calls_device(void)
{
    return sandbox_calls();
}

#endif
