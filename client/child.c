/* SPDX-License-Identifier: MIT */
#include "client/child.h"
#include "client/interrupt.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_CHUNK  (16u << 10)
#define CHILD_END_MS 500 /* time between SIGTERM and SIGKILL */

enum { CHILD_IN, CHILD_OUT, CHILD_ERR, CHILD_PID, CHILD_FDS };

struct child {
    struct child_result *result;
    const struct child_limits *limits;
    pid_t pid;
    int fds[CHILD_FDS]; /* this side of its standard streams, and its pidfd; -1: closed */
    const char *input;
    size_t left; /* bytes of @input */
};

static void child_close(struct child *c, int which)
{
    if (c->fds[which] >= 0) close(c->fds[which]);
    c->fds[which] = -1;
}

/* Three pipes; @theirs: the child's ends. */
static int child_pipes(struct child *c, int theirs[3])
{
    for (int i = 0; i < 3; i++) {
        int both[2], ours = i == CHILD_IN;
        if (pipe2(both, O_CLOEXEC) < 0) return error_origin(-errno);
        c->fds[i] = both[ours];
        theirs[i] = both[!ours];
        if (fcntl(c->fds[i], F_SETFL, O_NONBLOCK) < 0) return error_origin(-errno);
    }
    return 0;
}

/* Start it in a process group of its own, with the signals of a fresh program. */
static int child_spawn(pid_t *pid, char *const argv[], const int theirs[3])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, pipes;
    sigemptyset(&none);
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    int r = posix_spawn_file_actions_init(&actions);
    if (r != 0) return error_origin(-r);
    r = posix_spawnattr_init(&attr);
    if (r != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return error_origin(-r);
    }
    for (int i = 0; r == 0 && i < 3; i++) r = posix_spawn_file_actions_adddup2(&actions, theirs[i], i);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &pipes);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (r == 0) r = posix_spawnp(pid, argv[0], &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return r ? error_origin(-r) : 0;
}

static int child_start(struct child *c, char *const argv[])
{
    int theirs[3] = {-1, -1, -1}, r = child_pipes(c, theirs);
    if (r == 0) r = child_spawn(&c->pid, argv, theirs);
    for (int i = 0; i < 3; i++)
        if (theirs[i] >= 0) close(theirs[i]);
    if (r < 0) return r;
    c->fds[CHILD_PID] = pidfd_open(c->pid, 0);
    return c->fds[CHILD_PID] < 0 ? error_origin(-errno) : 0;
}

static void child_write(struct child *c)
{
    ssize_t n = c->left ? write(c->fds[CHILD_IN], c->input, c->left) : 0;
    if (n > 0) {
        c->input += n;
        c->left -= (size_t)n;
    }
    /* A child need not read its input. */
    if (c->left == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) child_close(c, CHILD_IN);
}

/* Read once. 0: nothing is ready; 1: more may be ready. */
static int child_read(struct child *c, int which)
{
    struct buf *to = which == CHILD_OUT ? &c->result->out : &c->result->err;
    size_t most = which == CHILD_OUT ? c->limits->bytes : CHILD_ERR_MAX;
    char chunk[CHILD_CHUNK];
    ssize_t n = read(c->fds[which], chunk, sizeof(chunk));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return errno == EINTR;
    if (n <= 0) {
        child_close(c, which);
        return 0;
    }
    size_t room = most - to->len;
    if (buf_append(to, chunk, (size_t)n < room ? (size_t)n : room) < 0)
        return error_say(-ENOMEM, "no memory for the output");
    if (which == CHILD_OUT && (size_t)n > room) {
        c->result->cut = true;
        child_close(c, CHILD_OUT);
    }
    return 1;
}

/* Ask the whole group to end, before it is killed. */
static void child_end(struct child *c)
{
    struct pollfd pfd = {.fd = c->fds[CHILD_PID], .events = POLLIN};
    kill(-c->pid, SIGTERM);
    poll(&pfd, 1, CHILD_END_MS);
}

/* Serve the pipes until the child exits or its time ends. */
static int child_serve(struct child *c)
{
    int64_t deadline = interrupt_now() + c->limits->ms;
    for (;;) {
        struct pollfd fds[CHILD_FDS];
        for (int i = 0; i < CHILD_FDS; i++)
            fds[i] = (struct pollfd){.fd = c->fds[i], .events = i == CHILD_IN ? POLLOUT : POLLIN};
        int r = interrupt_poll(fds, CHILD_FDS, deadline);
        if (r == 0) c->result->late = true;
        if (r <= 0) {
            child_end(c);
            return r;
        }
        if (fds[CHILD_IN].revents) child_write(c);
        if (fds[CHILD_OUT].revents) r = child_read(c, CHILD_OUT);
        if (r >= 0 && fds[CHILD_ERR].revents) r = child_read(c, CHILD_ERR);
        if (r < 0 || fds[CHILD_PID].revents) return r < 0 ? r : 0;
    }
}

/* Kill what is left of the group, then read what it has written. The child is a zombie until here, so that its group
 * still has its number. */
static int child_reap(struct child *c, int r)
{
    kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, &c->result->status, 0) < 0 && errno == EINTR) continue;
    for (int i = CHILD_OUT; i <= CHILD_ERR; i++) {
        int more = 1;
        while (r == 0 && more > 0 && c->fds[i] >= 0) more = child_read(c, i);
        if (more < 0) r = more;
    }
    return r;
}

int child_run(struct child_result *result, char *const argv[], const char *input, size_t len,
              const struct child_limits *l)
{
    struct child c = {.result = result, .limits = l, .fds = {-1, -1, -1, -1}, .input = input, .left = len};
    interrupt_block();
    int r = child_start(&c, argv);
    if (r < 0) r = error_in(r, "cannot run %s", argv[0]);
    if (c.pid > 0) {
        if (r == 0) r = child_serve(&c);
        r = child_reap(&c, r);
    }
    interrupt_unblock();
    for (int i = 0; i < CHILD_FDS; i++) child_close(&c, i);
    return r;
}

void child_result_fini(struct child_result *c)
{
    buf_fini(&c->out);
    buf_fini(&c->err);
}
