/* SPDX-License-Identifier: MIT */
#include "daemon/media/decoder-run.h"
#include "daemon/media/media-spawn.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TO, FROM, PID, FDS };

struct run {
    pid_t pid;
    int fds[FDS]; /* the pipes, and the process; -1: closed */
    int asker;    /* not owned; -1: none */
    struct media_ask ask;
    const uint8_t *data;
    uint64_t sent; /* bytes of @ask and @data */
    struct media_reply *out;
    uint64_t got; /* bytes of its head and data */
};

/* The samples of a sound must not depend on the CPU. */
static char *const environment[] = {"LC_ALL=C", "SOXR_USE_SIMD=0", NULL};

/* @theirs: standard input and output of the decoder. Libraries must not write to the log. */
static int spawn(struct run *d, char *const argv[], const int theirs[2])
{
    const struct media_program p = {.argv = argv, .env = environment, .in = theirs[0], .out = theirs[1], .error = -1};
    int r = media_spawn(&d->pid, &p);
    return r < 0 ? error_say(r, "the decoder cannot start: %s", strerror(-r)) : 0;
}

static int start(struct run *d, char *const argv[])
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, r = 0;
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0) r = error_origin(-errno);
    d->fds[TO] = in[1];
    d->fds[FROM] = out[0];
    if (r == 0 && (fcntl(in[1], F_SETFL, O_NONBLOCK) < 0 || fcntl(out[0], F_SETFL, O_NONBLOCK) < 0))
        r = error_origin(-errno);
    /* Larger pipes need fewer switches between the processes; a user's limit may forbid them. */
    if (r == 0 && (fcntl(in[1], F_SETPIPE_SZ, 1 << 20) < 0 || fcntl(out[0], F_SETPIPE_SZ, 1 << 20) < 0)) errno = 0;
    if (r == 0) r = spawn(d, argv, (const int[]){in[0], out[1]});
    closep(&in[0]);
    closep(&out[1]);
    if (r < 0) return r;
    d->fds[PID] = pidfd_open(d->pid, 0);
    return d->fds[PID] < 0 ? error_origin(-errno) : 0;
}

/* Write once. It need not read a file that it refuses. */
static void feed(struct run *d)
{
    uint64_t all = sizeof(d->ask) + d->ask.size;
    bool asked = d->sent >= sizeof(d->ask);
    const void *from = asked ? d->data + (d->sent - sizeof(d->ask)) : (const uint8_t *)&d->ask + d->sent;
    ssize_t n = write(d->fds[TO], from, asked ? all - d->sent : sizeof(d->ask) - d->sent);
    if (n > 0) d->sent += (uint64_t)n;
    if (d->sent == all || (n < 0 && errno != EAGAIN && errno != EINTR)) closep(&d->fds[TO]);
}

/* Read once, no more than the head says. 1: more may be ready; 0: nothing is; -errno. */
static int collect(struct run *d)
{
    struct media_head *head = &d->out->head;
    bool headed = d->got >= sizeof(*head);
    uint64_t left = headed ? sizeof(*head) + head->size - d->got : sizeof(*head) - d->got;
    char surplus;
    void *to = !headed ? (char *)head + d->got : left ? (char *)d->out->data + (d->got - sizeof(*head)) : &surplus;
    ssize_t n = read(d->fds[FROM], to, left ? left : 1);
    if (n < 0) return errno == EINTR ? 1 : errno == EAGAIN ? 0 : error_origin(-errno);
    if (n == 0) {
        closep(&d->fds[FROM]);
        return 0;
    }
    if (!left) return error_say(-EPROTO, "the decoder answers nonsense");
    d->got += (uint64_t)n;
    if (headed || d->got < sizeof(*head)) return 1;
    int r = media_head_check(head);
    if (r < 0) return r;
    d->out->data = malloc(head->size + 1);
    return d->out->data ? 1 : error_say(-ENOMEM, "no memory for the decoded file");
}

static int serve(struct run *d, int64_t ms)
{
    uint64_t deadline = clock_now_usec() + (uint64_t)ms * 1000;
    for (;;) {
        struct pollfd fds[FDS + 1];
        for (int i = 0; i < FDS; i++) fds[i] = (struct pollfd){d->fds[i], i == TO ? POLLOUT : POLLIN, 0};
        fds[FDS] = (struct pollfd){d->asker, 0, 0};
        uint64_t now = clock_now_usec();
        if (now >= deadline) return error_say(-ETIME, "it takes longer than %g s to decode", (double)ms / 1000);
        int r = poll(fds, FDS + 1, (int)((deadline - now) / 1000) + 1);
        if (r < 0 && errno != EINTR) return error_origin(-errno);
        if (r <= 0) continue;
        if (fds[FDS].revents) return error_say(-ECANCELED, "nobody waits for the file");
        if (fds[TO].revents) feed(d);
        r = fds[FROM].revents ? collect(d) : 0;
        if (r < 0 || fds[PID].revents) return r < 0 ? r : 0;
    }
}

/* The error of a decoder that a signal ended. */
static int died(int sig)
{
    switch (sig) {
    case SIGSYS:
        return error_say(-EBADMSG, "the decoder was killed for a forbidden system call");
    case SIGXCPU:
        return error_say(-ETIME, "it takes too much time to decode");
    case SIGKILL:
        return error_say(-EBADMSG, "the decoder was killed");
    default:
        return error_say(-EBADMSG, "the decoder crashed (SIG%s)", sigabbrev_np(sig) ? sigabbrev_np(sig) : "?");
    }
}

/* After serve() returned @r: kill the decoder, which may have ended, and read the rest of its answer. */
static int finish(struct run *d, int r)
{
    int status = 0, more = 1;
    kill(d->pid, SIGKILL);
    while (waitpid(d->pid, &status, 0) < 0 && errno == EINTR) continue;
    while (r == 0 && more > 0 && d->fds[FROM] >= 0) more = collect(d);
    if (r < 0 || more < 0) return r < 0 ? r : more;
    if (WIFSIGNALED(status)) return died(WTERMSIG(status));
    if (d->got < sizeof(d->out->head) || d->got < sizeof(d->out->head) + d->out->head.size)
        return error_say(-EBADMSG, "the decoder ended without an answer");
    return 0;
}

int decoder_run(char *const argv[], const uint8_t *data, size_t n, int64_t ms, int asker, struct media_reply *out)
{
    struct run d = {.fds = {-1, -1, -1}, .asker = asker, .ask = {n}, .data = data, .out = out};
    *out = (struct media_reply){0};
    int r = start(&d, argv);
    if (r == 0) r = serve(&d, ms);
    if (d.pid > 0) r = finish(&d, r);
    for (int i = 0; i < FDS; i++) closep(&d.fds[i]);
    if (r == 0) return 0;
    media_reply_fini(out);
    return media_error_in(r, media_sniff(data, n));
}
