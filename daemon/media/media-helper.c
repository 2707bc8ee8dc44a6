/* SPDX-License-Identifier: MIT */
#include "daemon/media/media-helper.h"
#include "daemon/media/media-spawn.h"
#include "daemon/media/media-wire.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "hobd-decode"

enum { PROCESSES = MEDIA_HELPER_FILES };

/* Decodes one file at a time. */
struct process {
    int fd; /* the socket; -1: it has ended */
    bool busy;
    pid_t pid;
};

struct media_helper {
    pthread_mutex_t lock; /* of @processes */
    pthread_cond_t idle;  /* one is not busy any more */
    int stop;             /* an eventfd, readable after media_helper_stop */
    struct process processes[PROCESSES];
};

static int find(char **out)
{
    char self[PATH_MAX];
    const char *const dirs[] = {paths_program_dir(self) ? self : HOB_LIBEXEC, HOB_LIBEXEC};
    for (int i = 0; i < 2; i++) {
        if (asprintf(out, "%s/" PROGRAM, dirs[i]) < 0) return error_say(-ENOMEM, "no memory for a path");
        if (access(*out, X_OK) == 0) return 0;
        free(steal(*out));
    }
    return error_say(-ENOENT, "%s/" PROGRAM " is missing: this hobd was built without images and sounds", HOB_LIBEXEC);
}

/* Its standard input is the socket; its errors go to the log. */
static int spawn(struct process *x, const char *program, int theirs)
{
    char *const argv[] = {PROGRAM, "helper", NULL}, *const none[] = {NULL};
    /* A process group of its own: an interrupt of the terminal ends hobd, whose end ends the helper. */
    const struct media_program p = {
        .argv = argv, .path = program, .env = none, .in = theirs, .out = -1, .error = STDERR_FILENO, .own_group = true};
    int r = media_spawn(&x->pid, &p);
    return r < 0 ? error_say(r, "%s cannot start: %s", program, strerror(-r)) : 0;
}

static int start(struct process *x, const char *program)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return error_origin(-errno);
    x->fd = pair[0];
    int r = spawn(x, program, pair[1]);
    close(pair[1]);
    return r;
}

int media_helper_new(struct media_helper **out, const char *program)
{
    _cleanup_(freep) char *found = NULL;
    int r = program ? 0 : find(&found);
    if (r < 0) return r;
    struct media_helper *h = calloc(1, sizeof(*h));
    if (!h) return error_say(-ENOMEM, "no memory to decode images and sounds");
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->idle, NULL);
    for (int i = 0; i < PROCESSES; i++) h->processes[i].fd = -1;
    h->stop = eventfd(0, EFD_CLOEXEC);
    if (h->stop < 0) r = error_origin(-errno);
    for (int i = 0; r == 0 && i < PROCESSES; i++) r = start(&h->processes[i], program ? program : found);
    if (r == 0)
        *out = h;
    else
        media_helper_free(h);
    return r;
}

/* Wait for the answer. */
static int await(int fd, int stop)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR) return error_origin(-errno);
    return fds[1].revents ? error_say(-ECANCELED, "the daemon stops") : 0;
}

static int discard(int fd, uint64_t n)
{
    char bytes[16384];
    int r = 0;
    for (uint64_t part; r == 0 && n > 0; n -= part) {
        part = n < sizeof(bytes) ? n : sizeof(bytes);
        r = media_read(fd, bytes, part);
    }
    return r;
}

/* The answer to the file. @broken: the process cannot be used any more. */
static int ask(int fd, int stop, const uint8_t *data, size_t n, struct media_reply *reply, bool *broken)
{
    const struct media_ask ask = {n};
    int r = media_send(fd, &ask, sizeof(ask));
    if (r == 0) r = media_send(fd, data, n);
    if (r == 0) r = await(fd, stop);
    if (r == 0) r = media_read(fd, &reply->head, sizeof(reply->head));
    if (r == 0) r = media_head_check(&reply->head);
    if (r == 0) reply->data = malloc(reply->head.size + 1);
    if (r == 0) r = reply->data ? media_read(fd, reply->data, reply->head.size) : discard(fd, reply->head.size);
    *broken = r < 0;
    return r == 0 && !reply->data ? error_say(-ENOMEM, "no memory for the decoded file") : r;
}

/* A process that is not busy, and is from then on; NULL: all have ended. */
static struct process *take(struct media_helper *h)
{
    struct process *found = NULL;
    pthread_mutex_lock(&h->lock);
    for (bool any = true; any && !found;) {
        any = false;
        for (int i = 0; i < PROCESSES && !found; i++) {
            struct process *x = &h->processes[i];
            any = any || x->fd >= 0;
            if (x->fd >= 0 && !x->busy) found = x;
        }
        if (any && !found) pthread_cond_wait(&h->idle, &h->lock);
    }
    if (found) found->busy = true;
    pthread_mutex_unlock(&h->lock);
    return found;
}

static void give_back(struct media_helper *h, struct process *x, bool broken)
{
    pthread_mutex_lock(&h->lock);
    x->busy = false;
    if (broken) closep(&x->fd);
    pthread_cond_broadcast(&h->idle);
    pthread_mutex_unlock(&h->lock);
}

int media_helper_decode(struct media_helper *h, const uint8_t *data, size_t n, struct media *m)
{
    struct media_reply reply = {0};
    bool broken;
    int r = 0;
    *m = (struct media){0};
    if (n > MEDIA_FILE_MAX) return error_say(-EFBIG, "the file is over the limit of %u MiB", MEDIA_FILE_MAX >> 20);
    struct process *x = take(h);
    if (!x) return error_in(error_say(-ENODATA, "the process that starts decoders has ended"), "decoding");
    r = ask(x->fd, h->stop, data, n, &reply, &broken);
    give_back(h, x, broken);
    if (r < 0) r = error_in(r, "decoding");
    if (r == 0) r = media_reply_take(&reply, m);
    if (r == 0) media_digest(m);
    media_reply_fini(&reply);
    return r;
}

void media_helper_stop(struct media_helper *h)
{
    const uint64_t one = 1;
    while (write(h->stop, &one, sizeof(one)) < 0 && errno == EINTR) continue;
}

struct media_helper *media_helper_free(struct media_helper *h)
{
    if (!h) return NULL;
    for (int i = 0; i < PROCESSES; i++) closep(&h->processes[i].fd);
    /* In the sandbox this call does not exist; hobd exits then. */
    for (int i = 0; i < PROCESSES; i++)
        while (h->processes[i].pid > 0 && waitpid(h->processes[i].pid, NULL, 0) < 0 && errno == EINTR) continue;
    closep(&h->stop);
    pthread_cond_destroy(&h->idle);
    pthread_mutex_destroy(&h->lock);
    free(h);
    return NULL;
}
