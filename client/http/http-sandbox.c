/* SPDX-License-Identifier: MIT */
#include "client/http/http-sandbox.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include "libcommon/sandbox-rules.h"
#include "libcommon/sandbox.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { PATHS_MOST = 64 };

#ifdef SANDBOX_ARCH

static const struct sock_filter program[] = {
    SANDBOX_BEGIN,
/* frequent calls */
#ifdef __NR_epoll_wait
    ALLOW(epoll_wait),
#endif
    ALLOW(epoll_pwait),
    ALLOW(recvfrom),
    ALLOW(sendto),
    ALLOW(sendmsg), /* to a connected socket, or one of the service manager */
    ALLOW(epoll_ctl),
    ALLOW(close),
    ALLOW(timerfd_settime),
    ALLOW(read),
    ALLOW(write),
    ALLOW(setsockopt),
    ALLOW(getsockopt),
    ALLOW(accept4),
    ALLOW_ONE(socket, 0, AF_UNIX),
    ALLOW(connect), /* landlock forbids TCP, which an accepted socket could reach after AF_UNSPEC */
    ALLOW(shutdown),
    ALLOW(getsockname),
    ALLOW(getpeername),
    ALLOW(clock_gettime),
    ALLOW(fstat),
    ALLOW(newfstatat),
    SANDBOX_FCNTL,
    ALLOW(writev),
    ALLOW(sendfile),
    /* memory */
    ALLOW(brk),
    ALLOW(madvise),
    RULE(mmap, 4), /* no code */
    LOW(2),
    IF_ANY(PROT_EXEC, 1, 0),
    YES,
    NO,
    RULE(mprotect, 4),
    LOW(2),
    IF_ANY(PROT_EXEC, 1, 0),
    YES,
    NO,
    ALLOW(mremap),
    ALLOW(munmap),
    ALLOW(futex),
    /* files: landlock restricts the paths */
    RULE(openat, 6), /* only for reading */
    LOW(2),
    IF_ANY(O_TRUNC | O_CREAT, 0, 1),
    NO,
    IF_ANY(O_ACCMODE, 1, 0),
    YES,
    NO,
    ALLOW(faccessat),
    ALLOW(faccessat2),
    ALLOW(getcwd),
    ALLOW(getdents64),
    ALLOW(lseek),
    ALLOW(pread64),
    ALLOW(readlinkat),
    ALLOW(statx),
#ifdef __NR_access /* calls that newer architectures do not have */
    ALLOW(access),
    ALLOW(poll),
    ALLOW(readlink),
    ALLOW(time),
    REFUSE(fork),
    REFUSE(mkdir),
    REFUSE(rename),
    REFUSE(rmdir),
    REFUSE(unlink),
    REFUSE(vfork),
#endif
    /* the process, time and waiting */
    ALLOW(clock_nanosleep),
    ALLOW(epoll_pwait2),
    ALLOW(eventfd2),
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(getegid),
    ALLOW(geteuid),
    ALLOW(getgid),
    ALLOW(getpid),
    ALLOW(getrandom),
    ALLOW(gettid),
    ALLOW(gettimeofday),
    ALLOW(getuid),
    ALLOW(ppoll),
    ALLOW(restart_syscall),
    ALLOW(rseq),
    ALLOW(rt_sigaction),
    ALLOW(rt_sigprocmask),
    ALLOW(rt_sigreturn),
    ALLOW(set_robust_list),
    ALLOW(sigaltstack),
    ALLOW(signalfd4),
    ALLOW(tgkill), /* sandbox_load restricts it further */
    ALLOW(timerfd_create),
    REFUSE(accept),
    REFUSE(bind),
    REFUSE(chdir),
    REFUSE(chroot),
    REFUSE(clone),
    REFUSE(execve),
    REFUSE(execveat),
    REFUSE(ioctl),
    REFUSE(kill),
    REFUSE(listen),
    REFUSE(memfd_create),
    REFUSE(mkdirat),
    REFUSE(mount),
    REFUSE(prctl),
    REFUSE(prlimit64),
    REFUSE(recvmmsg),
    REFUSE(recvmsg),
    REFUSE(renameat),
    REFUSE(renameat2),
    REFUSE(sendmmsg),
    REFUSE(setgid),
    REFUSE(setns),
    REFUSE(setuid),
    REFUSE(socketpair),
    REFUSE(tkill),
    REFUSE(truncate),
    REFUSE(unlinkat),
    REFUSE(unshare),
    SANDBOX_TRAPS,
    ABSENT,
};

int http_sandbox_calls(void)
{
    return sandbox_load("hob-http", program, sizeof(program) / sizeof(*program));
}

#else

int http_sandbox_calls(void)
{
    return sandbox_load("hob-http", NULL, 0);
}

#endif

/* The places where model_list and the keys look; those that do not exist now stay closed. */
struct places {
    char *dirs[8];
    size_t n;
};

static void add_dir(struct places *p, enum paths_kind kind, bool system)
{
    int r = paths_dir(kind, system, &p->dirs[p->n]);
    if (r == 0) p->n++;
}

void http_sandbox_enter(const char *keys)
{
    struct places p = {0};
    struct sandbox_path paths[PATHS_MOST];
    size_t n = 0;
    for (int system = 0; system < 2; system++) {
        add_dir(&p, PATHS_RUNTIME, system);
        add_dir(&p, PATHS_MODELS, system);
    }
    for (size_t i = 0; i < p.n; i++) paths[n++] = (struct sandbox_path){p.dirs[i], SANDBOX_READ};
    _cleanup_(freep) char *keys_dir = keys ? strdup(keys) : NULL;
    char *slash = keys_dir ? strrchr(keys_dir, '/') : NULL;
    if (slash > keys_dir) *slash = 0;
    /* The directory, because an editor replaces the file. */
    if (keys_dir) paths[n++] = (struct sandbox_path){slash ? keys_dir : ".", SANDBOX_READ};
    if (keys) paths[n++] = (struct sandbox_path){keys, SANDBOX_READ};
    const struct sandbox sandbox = {.paths = paths, .n_paths = n, .calls = http_sandbox_calls};
    sandbox_enter(&sandbox);
    for (size_t i = 0; i < p.n; i++) free(p.dirs[i]);
}
