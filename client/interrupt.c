/* SPDX-License-Identifier: MIT */
#include "client/interrupt.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <signal.h>
#include <time.h>

static volatile sig_atomic_t interrupt_flag;
static sigset_t interrupt_set; /* the signals that count as an interrupt */

static void interrupt_take(int sig)
{
    interrupt_flag = 1;
}

void interrupt_init(void)
{
    sigemptyset(&interrupt_set);
    interrupt_also(SIGINT);
    signal(SIGPIPE, SIG_IGN);
}

void interrupt_also(int sig)
{
    struct sigaction old, act = {.sa_handler = interrupt_take, .sa_flags = (int)SA_RESETHAND};
    sigaddset(&interrupt_set, sig);
    if (sigaction(sig, NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(sig, &act, NULL);
}

static void interrupt_mask(int how)
{
    sigprocmask(how, &interrupt_set, NULL);
}

void interrupt_block(void)
{
    interrupt_mask(SIG_BLOCK);
}

void interrupt_unblock(void)
{
    interrupt_mask(SIG_UNBLOCK);
}

bool interrupted(void)
{
    return interrupt_flag;
}

void interrupt_clear(void)
{
    interrupt_flag = 0;
}

int64_t interrupt_now(void)
{
    return (int64_t)(clock_now_usec() / 1000);
}

int interrupt_poll(struct pollfd *fds, unsigned n, int64_t deadline)
{
    for (;;) {
        struct timespec left, *timeout = NULL;
        sigset_t open;
        if (interrupt_flag) return -EINTR;
        if (deadline >= 0) {
            int64_t ms = deadline - interrupt_now();
            if (ms < 0) ms = 0;
            left = (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
            timeout = &left;
        }
        sigprocmask(SIG_BLOCK, NULL, &open);
        for (int sig = 1; sig < NSIG; sig++)
            if (sigismember(&interrupt_set, sig) == 1) sigdelset(&open, sig);
        int r = ppoll(fds, n, timeout, &open);
        if (r >= 0) return r;
        if (errno != EINTR) return -errno;
    }
}

int interrupt_sleep(int64_t ms)
{
    return interrupt_poll(NULL, 0, interrupt_now() + ms);
}
