/* SPDX-License-Identifier: MIT */
/* Loads a filter of system calls; loading allocates nothing. */
#include "libcommon/error.h"
#include "libcommon/sandbox-rules.h"
#include "libcommon/sandbox.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifdef SANDBOX_ARCH

static char before[96]; /* the begin of on_sigsys's line */

/* Log the number of the call; then the signal has its default effect. */
static void on_sigsys(int sig, siginfo_t *info, void *context)
{
    char line[sizeof before + 16];
    size_t n = strlen(before);
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

int sandbox_load(const char *program, const struct sock_filter *rules, size_t n)
{
    const struct sigaction act = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
    snprintf(before, sizeof before, "%.16s: the sandbox kills this process for a forbidden system call, number ",
             program);
    int r = sigaction(SIGSYS, &act, NULL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
    if (r == 0) r = load_own_threads();
    if (r == 0) r = load(rules, n);
    return r < 0 ? error_say(r, "seccomp: %s", strerror(-r)) : 0;
}

#else

int sandbox_load(const char *program, const struct sock_filter *rules, size_t n)
{
    return error_say(-EOPNOTSUPP, "seccomp: %s has no filter for this architecture", program);
}

#endif
