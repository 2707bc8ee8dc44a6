/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/confine.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/sandbox-rules.h"
#include "libcommon/sandbox.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef SANDBOX_ARCH

static const struct sock_filter program[] = {
    SANDBOX_BEGIN,
    ALLOW_ONE(read, 0, STDIN_FILENO),
    ALLOW_ONE(write, 0, STDOUT_FILENO),
    /* memory, without code or files */
    ALLOW(brk),
    ALLOW(madvise),
    ALLOW(mremap),
    ALLOW(munmap),
    RULE(mmap, 6),
    LOW(2),
    IF_ANY(PROT_EXEC, 2, 0),
    LOW(3),
    IF_ANY(MAP_ANONYMOUS, 1, 0),
    NO,
    YES,
    RULE(mprotect, 4),
    LOW(2),
    IF_ANY(PROT_EXEC, 1, 0),
    YES,
    NO,
    ALLOW(futex),
    ALLOW(getrandom), /* glibc's malloc */
    /* the clock; usually without a call */
    ALLOW(clock_gettime),
    ALLOW(gettimeofday),
#ifdef __NR_time
    ALLOW(time),
#endif
    /* libsndfile looks for a macOS resource fork of Ogg and MP3 files. Any other open kills. */
    RULE(openat, 4),
    LOW(2),
    IF_IS(O_RDONLY, 0, 1),
    NO,
    END,
    REFUSE(sysinfo), /* qsort asks how much it may allocate */
    /* the end, also by abort */
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(getpid),
    ALLOW(gettid),
    ALLOW(rt_sigaction),
    ALLOW(rt_sigprocmask),
    ALLOW(rt_sigreturn),
    ALLOW(tgkill), /* sandbox_load restricts it further */
    END,
};

static int calls(void)
{
    return sandbox_load("hobd-decode", program, sizeof(program) / sizeof(*program));
}

#else

static int calls(void)
{
    return sandbox_load("hobd-decode", NULL, 0);
}

#endif

static rlim_t lesser(rlim_t a, rlim_t b)
{
    return a < b ? a : b;
}

/* A limit that is lower already stays. */
static int limit(__rlimit_resource_t what, rlim_t soft, rlim_t hard)
{
    struct rlimit now;
    int r = getrlimit(what, &now);
    if (r == 0) r = setrlimit(what, &(struct rlimit){lesser(soft, now.rlim_max), lesser(hard, now.rlim_max)});
    return r < 0 ? error_say(-errno, "limits: %s", strerror(errno)) : 0;
}

int confine_limits(uint64_t file_bytes)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sandbox_is_left_out()) return 0;
    _cleanup_(closep) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    /* Without it, the kernel chooses by size. */
    if (fd >= 0 && write(fd, "1000", 4) < 0) closep(&fd);
    int r = limit(RLIMIT_AS, DECODER_MEMORY + file_bytes, DECODER_MEMORY + file_bytes);
    if (r == 0) r = limit(RLIMIT_CPU, DECODER_CPU, DECODER_CPU + 1);
    if (r == 0) r = limit(RLIMIT_CORE, 0, 0);
    if (r == 0) r = limit(RLIMIT_FSIZE, 0, 0);
    if (r == 0) r = limit(RLIMIT_NOFILE, 0, 0);
    if (r == 0) r = limit(RLIMIT_NPROC, 0, 0);
    return r;
}

int confine_calls(void)
{
    return sandbox_is_left_out() ? 0 : calls();
}
