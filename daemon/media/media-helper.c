/* SPDX-License-Identifier: MIT */
#include "daemon/media/media-helper.h"
#include "daemon/media/media-keeper.h"
#include "daemon/media/media-wire.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PROGRAM "hobd-decode"

enum { PROCESSES = MEDIA_HELPER_FILES, STARTS = 8, STARTS_USEC = 60 * 1000 * 1000 };

/* A helper, which decodes one file at a time. */
struct process {
    int fd; /* the socket; -1: it has ended; of the thread that made it busy */
    bool busy;
};

struct media_helper {
    pthread_mutex_t lock;   /* of processes' @busy, and @starts */
    pthread_cond_t idle;    /* one is not busy any more */
    pthread_mutex_t asking; /* of @keeper */
    struct media_keeper keeper;
    int stop; /* an eventfd, readable after media_helper_stop */
    struct process processes[PROCESSES];
    uint64_t starts[STARTS], n_starts; /* times of the last ones that were started again; all of them */
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

/* Whether a helper may be started again now. Helpers that end again and again are not. @h is locked. */
static bool may_start(struct media_helper *h)
{
    uint64_t now = clock_now_usec(), *oldest = &h->starts[h->n_starts % STARTS];
    if (h->n_starts >= STARTS && now - *oldest < STARTS_USEC) return false;
    *oldest = now;
    h->n_starts++;
    return true;
}

/* Start the helper of @x, which is the caller's. */
static int start_again(struct media_helper *h, struct process *x)
{
    pthread_mutex_lock(&h->lock);
    bool may = may_start(h);
    pthread_mutex_unlock(&h->lock);
    if (!may)
        return error_say(
            -EAGAIN, "the processes that start decoders have ended %d times within a minute: try again later", STARTS);
    pthread_mutex_lock(&h->asking);
    int fd = media_keeper_ask(&h->keeper, h->stop);
    pthread_mutex_unlock(&h->asking);
    if (fd < 0) return fd;
    x->fd = fd;
    log_warning("a process that starts decoders has ended, and was started again");
    return 0;
}

static int start_all(struct media_helper *h, const char *program)
{
    int r = media_keeper_start(&h->keeper, program);
    for (int i = 0; r == 0 && i < PROCESSES; i++) {
        int fd = media_keeper_ask(&h->keeper, h->stop);
        if (fd < 0) return fd;
        h->processes[i].fd = fd;
    }
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
    pthread_mutex_init(&h->asking, NULL);
    pthread_cond_init(&h->idle, NULL);
    h->keeper.fd = -1;
    for (int i = 0; i < PROCESSES; i++) h->processes[i].fd = -1;
    h->stop = eventfd(0, EFD_CLOEXEC);
    if (h->stop < 0) r = error_origin(-errno);
    if (r == 0) r = start_all(h, program ? program : found);
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

/* A process that is not busy, and is from then on. */
static struct process *take(struct media_helper *h)
{
    struct process *found = NULL;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        for (int i = 0; i < PROCESSES && !found; i++)
            if (!h->processes[i].busy) found = &h->processes[i];
        if (found) break;
        pthread_cond_wait(&h->idle, &h->lock);
    }
    found->busy = true;
    pthread_mutex_unlock(&h->lock);
    return found;
}

static void give_back(struct media_helper *h, struct process *x)
{
    pthread_mutex_lock(&h->lock);
    x->busy = false;
    pthread_cond_broadcast(&h->idle);
    pthread_mutex_unlock(&h->lock);
}

/* Nothing comes from a helper that was asked nothing, but the end. */
static bool has_ended(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static int ask_one(struct media_helper *h, struct process *x, const uint8_t *data, size_t n, struct media_reply *reply)
{
    bool broken = false;
    int r = 0;
    if (x->fd >= 0 && has_ended(x->fd)) closep(&x->fd);
    if (x->fd < 0) r = start_again(h, x);
    if (r == 0) r = ask(x->fd, h->stop, data, n, reply, &broken);
    if (broken) closep(&x->fd);
    return r;
}

int media_helper_decode(struct media_helper *h, const uint8_t *data, size_t n, struct media *m)
{
    struct media_reply reply = {0};
    *m = (struct media){0};
    if (n > MEDIA_FILE_MAX) return error_say(-EFBIG, "the file is over the limit of %u MiB", MEDIA_FILE_MAX >> 20);
    struct process *x = take(h);
    int r = ask_one(h, x, data, n, &reply);
    give_back(h, x);
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
    media_keeper_end(&h->keeper);
    closep(&h->stop);
    pthread_cond_destroy(&h->idle);
    pthread_mutex_destroy(&h->asking);
    pthread_mutex_destroy(&h->lock);
    free(h);
    return NULL;
}
