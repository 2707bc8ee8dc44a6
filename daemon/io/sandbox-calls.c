/* SPDX-License-Identifier: MIT */
/* Which system calls are left. One that is not listed here does not exist (ENOSYS, so that libraries fall back to what
 * they did on older kernels); what is known and not wanted is refused (EPERM); what only an attacker calls is the end.
 */
#include "daemon/io/sandbox.h"
#include "libcommon/error.h"
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const allowed[] = {
    /* memory */
    "brk", "get_mempolicy", "madvise", "mbind", "membarrier", "memfd_create", "mincore", "mlock", "mlock2", "mmap",
    "mmap2", "mprotect", "mremap", "msync", "munlock", "munmap", "set_mempolicy",
    /* threads and signals */
    "arch_prctl", "exit", "exit_group", "futex", "futex_time64", "futex_waitv", "get_robust_list", "getcpu", "getpid",
    "getppid", "getpriority", "gettid", "ioprio_get", "ioprio_set", "prctl", "restart_syscall", "rseq", "rt_sigaction",
    "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield",
    "set_robust_list", "set_tid_address", "setpriority", "sigaltstack", "sigreturn",
    /* time */
    "clock_getres", "clock_getres_time64", "clock_gettime", "clock_gettime64", "clock_nanosleep",
    "clock_nanosleep_time64", "getrusage", "gettimeofday", "nanosleep", "time", "times",
    /* waiting */
    "_newselect", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd2",
    "pipe2", "poll", "ppoll", "ppoll_time64", "pselect6", "pselect6_time64", "select", "signalfd4", "timerfd_create",
    "timerfd_gettime", "timerfd_gettime64", "timerfd_settime", "timerfd_settime64",
    /* files: which ones is landlock's business */
    "_llseek", "access", "chdir", "close", "close_range", "copy_file_range", "dup", "dup2", "dup3", "faccessat",
    "faccessat2", "fadvise64", "fadvise64_64", "arm_fadvise64_64", "fallocate", "fchdir", "fchmod", "fcntl", "fcntl64",
    "fdatasync", "flock", "fstat", "fstat64", "fstatat64", "fstatfs", "fstatfs64", "fsync", "ftruncate", "ftruncate64",
    "getcwd", "getdents", "getdents64", "link", "linkat", "lseek", "lstat", "lstat64", "mkdir", "mkdirat", "newfstatat",
    "open", "openat", "openat2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead",
    "readlink", "readlinkat", "readv", "rename", "renameat", "renameat2", "rmdir", "sendfile", "sendfile64", "stat",
    "stat64", "statfs", "statfs64", "statx", "sync_file_range", "sync_file_range2", "truncate", "truncate64", "umask",
    "unlink", "unlinkat", "utimensat", "utimensat_time64", "write", "writev",
    /* sockets that are there, and those that socket() below still makes */
    "accept", "accept4", "connect", "getpeername", "getsockname", "getsockopt", "recvfrom", "recvmmsg", "recvmsg",
    "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    /* who and where one is */
    "getegid", "getegid32", "geteuid", "geteuid32", "getgid", "getgid32", "getgroups", "getgroups32", "getpgrp",
    "getpgid", "getrandom", "getrlimit", "getresgid", "getresuid", "getsid", "getuid", "getuid32", "setrlimit",
    "sysinfo", "uname", "ugetrlimit"};

/* Things that a library may try without harm in mind. */
static const char *const refused[] = {
    /* processes, users, names of files */
    "acct",
    "bind",
    "capset",
    "chmod",
    "chown",
    "chroot",
    "creat",
    "execve",
    "execveat",
    "fchmodat",
    "fchown",
    "fchownat",
    "fork",
    "kill",
    "lchown",
    "listen",
    "mknod",
    "mknodat",
    "mount",
    "personality",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "setgid",
    "setgroups",
    "sethostname",
    "setns",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setsid",
    "settimeofday",
    "setuid",
    "setxattr",
    "symlink",
    "symlinkat",
    "tkill",
    "unshare",
    "vfork"};

static const char *const hostile[] = {
    /* other processes, the kernel itself */
    "add_key",
    "bpf",
    "delete_module",
    "finit_module",
    "fsmount",
    "init_module",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "reboot",
    "request_key",
    "swapoff",
    "swapon",
    "umount2",
    "userfaultfd"};

/* Asking a descriptor what it is; sd-event and stdio do. */
static const unsigned long ioctls[] = {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX};

/* The line says which; then it is as if nobody had been here. */
static void on_sigsys(int sig, siginfo_t *info, void *context)
{
    static const char before[] = "hobd: something made it try a system call that it never makes, number ";
    char line[sizeof before + 16];
    size_t n = sizeof before - 1;
    unsigned call = (unsigned)info->si_syscall, unit = 1;

    memcpy(line, before, n);
    while (unit <= 10000 && call / unit >= 10) unit *= 10;
    for (; unit; unit /= 10) line[n++] = (char)('0' + call / unit % 10);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0) n = 0;
    raise(sig); /* SA_RESETHAND: delivered as this returns */
}

static int add_all(scmp_filter_ctx f, uint32_t action, const char *const *names, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        int call = seccomp_syscall_resolve_name(names[i]);

        if (call != __NR_SCMP_ERROR) r = seccomp_rule_add(f, action, call, 0);
        if (r == -EDOM) r = 0; /* not on this architecture */
    }
    return r;
}

/* Calls of which a part is left. */
static int add_parts(scmp_filter_ctx f)
{
    const uint32_t no = SCMP_ACT_ERRNO(EPERM);
    int r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));

    if (r == 0) r = seccomp_rule_add(f, no, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    if (r == 0) r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
    /* Threads, not processes. What clone3 is asked for stands in memory, out of a filter's sight: glibc takes clone
     * when it is not there. */
    if (r == 0)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    if (r == 0) r = seccomp_rule_add(f, no, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    if (r == 0)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
    if (r == 0) r = seccomp_rule_add(f, no, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_NE, (scmp_datum_t)getpid()));
    /* One's own limits; 0 is oneself. */
    if (r == 0) r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_EQ, 0));
    for (size_t i = 0; r == 0 && i < sizeof ioctls / sizeof *ioctls; i++)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, ioctls[i]));
    return r;
}

#define ALL(list) list, sizeof list / sizeof *list

int sandbox_calls(void)
{
    const struct sigaction act = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int r;

    if (!f) return error_say(-ENOMEM, "seccomp: no memory for the filter");
    r = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_TRAP);
    /* A tree instead of a list; older libraries have the list only. */
    seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (r == 0) r = add_all(f, SCMP_ACT_ALLOW, ALL(allowed));
    if (r == 0) r = add_all(f, SCMP_ACT_ERRNO(EPERM), ALL(refused));
    if (r == 0) r = add_all(f, SCMP_ACT_TRAP, ALL(hostile));
    if (r == 0) r = add_parts(f);
    if (r == 0 && sigaction(SIGSYS, &act, NULL) < 0) r = -errno;
    if (r == 0) r = seccomp_load(f);
    seccomp_release(f);
    return r < 0 ? error_say(r, "seccomp: %s", strerror(-r)) : 0;
}
