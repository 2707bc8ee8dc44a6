/* SPDX-License-Identifier: MIT */
#include "daemon/media/media-keeper.h"
#include "daemon/media/media-spawn.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 10000 };

/* The answer to a question: 0 with the socket of a helper, or -errno. */
struct passed {
    int32_t error;
};

union control {
    struct cmsghdr head; /* aligns it */
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* @own_group: an interrupt of the terminal ends hobd, whose end ends the process. */
static int start(pid_t *pid, const char *program, char *role, int in, bool own_group)
{
    char *const argv[] = {"hobd-decode", role, NULL}, *const none[] = {NULL};
    const struct media_program p = {.argv = argv,
                                    .path = program,
                                    .env = none,
                                    .in = in,
                                    .out = -1,
                                    .error = STDERR_FILENO,
                                    .own_group = own_group};
    return media_spawn(pid, &p);
}

int media_keeper_start(struct media_keeper *k, const char *program)
{
    int pair[2];
    *k = (struct media_keeper){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return error_origin(-errno);
    int r = start(&k->pid, program, "keeper", pair[1], true);
    close(pair[1]);
    if (r < 0) {
        close(pair[0]);
        return error_say(r, "%s cannot start: %s", program, strerror(-r));
    }
    k->fd = pair[0];
    return 0;
}

static int await(int fd, int stop)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
    int n;
    while ((n = poll(fds, 2, WAIT_MS)) < 0)
        if (errno != EINTR) return error_origin(-errno);
    if (fds[1].revents) return error_say(-ECANCELED, "the daemon stops");
    return n ? 0 : error_say(-ETIMEDOUT, "the process that starts decoders does not answer");
}

/* The flags are the only ones that the sandbox allows. */
static int take(int fd)
{
    struct passed answer = {0};
    union control control;
    struct iovec part = {&answer, sizeof(answer)};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n;
    int passed = -1;
    while ((n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) continue;
    if (n < 0 && errno != ECONNRESET) return error_origin(-errno);
    if (n <= 0) return error_say(-ENODATA, "the process that starts decoders has ended");
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS) memcpy(&passed, CMSG_DATA(c), sizeof(passed));
    if (n == sizeof(answer) && answer.error == 0 && passed >= 0) return passed;
    closep(&passed);
    if (n != sizeof(answer) || answer.error >= 0 || answer.error < -4095)
        return error_say(-EPROTO, "it answers nonsense");
    return error_say(answer.error, "a process for decoders cannot start: %s", strerror(-answer.error));
}

int media_keeper_ask(struct media_keeper *k, int stop)
{
    static const char ended[] = "the process that starts decoders has ended: files are refused until hobd starts again";
    if (k->fd < 0) return error_say(-ENODATA, "%s", ended);
    ssize_t n;
    while ((n = send(k->fd, "", 1, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
    int r = n < 0 ? (errno == EPIPE || errno == ECONNRESET ? -ENODATA : error_origin(-errno)) : await(k->fd, stop);
    if (r == 0) r = take(k->fd);
    if (r == -ENODATA) error_say(r, "%s", ended);
    /* An answer that comes later would be one to the next question. */
    if (r == -ENODATA || r == -ETIMEDOUT || r == -EPROTO) closep(&k->fd);
    return r;
}

void media_keeper_end(struct media_keeper *k)
{
    closep(&k->fd);
    /* In the sandbox this call does not exist; hobd exits then. */
    while (k->pid > 0 && waitpid(k->pid, NULL, 0) < 0 && errno == EINTR) continue;
    k->pid = 0;
}

/* @helper: its socket, or -errno. */
static int answer(int fd, int helper)
{
    struct passed text = {helper < 0 ? helper : 0};
    union control control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec part = {&text, sizeof(text)};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (helper >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof(control);
        memcpy(CMSG_DATA(&control.head), &helper, sizeof(helper));
    }
    ssize_t n;
    while ((n = sendmsg(fd, &m, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
    return n < 0 ? -errno : 0;
}

/* Returns the socket of a new helper, or -errno. */
static int start_helper(const char *program)
{
    int pair[2];
    pid_t pid;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return -errno;
    int r = start(&pid, program, "helper", pair[1], false);
    close(pair[1]);
    if (r == 0) return pair[0];
    close(pair[0]);
    return r;
}

int media_keeper_serve(int fd, const char *program)
{
    int r = 0;
    prctl(PR_SET_NAME, "hobd-keeper"); /* whoever ends the decoders by their name leaves it */
    signal(SIGCHLD, SIG_IGN);          /* so that no helper that ends stays as a zombie */
    while (r == 0) {
        char c;
        ssize_t n;
        while ((n = recv(fd, &c, 1, 0)) < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        _cleanup_(closep) int helper = start_helper(program);
        r = answer(fd, helper);
    }
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) continue; /* ends with ECHILD */
    return r < 0;
}
