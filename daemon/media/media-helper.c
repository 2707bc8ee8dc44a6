/* SPDX-License-Identifier: MIT */
#include "daemon/media/media-helper.h"
#include "daemon/media/media-spawn.h"
#include "daemon/media/media-wire.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "hobd-decode"

struct media_helper {
    pthread_mutex_t lock; /* held while a file is decoded */
    int fd;               /* the socket; -1: the helper has ended */
    pid_t pid;
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
static int spawn(struct media_helper *h, const char *program, int theirs)
{
    char *const argv[] = {PROGRAM, "helper", NULL}, *const none[] = {NULL};
    /* A process group of its own: an interrupt of the terminal ends hobd, whose end ends the helper. */
    const struct media_program p = {
        .argv = argv, .path = program, .env = none, .in = theirs, .out = -1, .error = STDERR_FILENO, .own_group = true};
    int r = media_spawn(&h->pid, &p);
    return r < 0 ? error_say(r, "%s cannot start: %s", program, strerror(-r)) : 0;
}

int media_helper_new(struct media_helper **out, const char *program)
{
    _cleanup_(freep) char *found = NULL;
    int r = program ? 0 : find(&found), pair[2];
    if (r < 0) return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return error_origin(-errno);
    struct media_helper *h = malloc(sizeof(*h));
    if (h) {
        *h = (struct media_helper){.fd = pair[0]};
        pthread_mutex_init(&h->lock, NULL);
        r = spawn(h, program ? program : found, pair[1]);
    } else {
        close(pair[0]);
        r = error_say(-ENOMEM, "no memory to decode images and sounds");
    }
    close(pair[1]);
    if (r == 0)
        *out = h;
    else
        media_helper_free(h);
    return r;
}

/* The helper's answer to the file. If this fails, the helper cannot be used any more. */
static int ask(int fd, const uint8_t *data, size_t n, struct media_reply *reply)
{
    const struct media_ask ask = {n};
    int r = media_send(fd, &ask, sizeof(ask));
    if (r == 0) r = media_send(fd, data, n);
    if (r == 0) r = media_read(fd, &reply->head, sizeof(reply->head));
    if (r == 0) r = media_head_check(&reply->head);
    if (r < 0) return r;
    reply->data = malloc(reply->head.size + 1);
    if (!reply->data) return error_say(-ENOMEM, "no memory for the decoded file");
    return media_read(fd, reply->data, reply->head.size);
}

int media_helper_decode(struct media_helper *h, const uint8_t *data, size_t n, struct media *m)
{
    struct media_reply reply = {0};
    int r = 0;
    *m = (struct media){0};
    if (n > MEDIA_FILE_MAX) return error_say(-EFBIG, "the file is over the limit of %u MiB", MEDIA_FILE_MAX >> 20);
    pthread_mutex_lock(&h->lock);
    if (h->fd < 0) r = error_say(-ENODATA, "the process that starts decoders has ended");
    if (r == 0) {
        r = ask(h->fd, data, n, &reply);
        if (r < 0) closep(&h->fd);
    }
    pthread_mutex_unlock(&h->lock);
    if (r < 0) r = error_in(r, "decoding");
    if (r == 0) r = media_reply_take(&reply, m);
    if (r == 0) media_digest(m);
    media_reply_fini(&reply);
    return r;
}

struct media_helper *media_helper_free(struct media_helper *h)
{
    if (!h) return NULL;
    closep(&h->fd);
    /* In the sandbox this call does not exist; hobd exits then. */
    while (h->pid > 0 && waitpid(h->pid, NULL, 0) < 0 && errno == EINTR) continue;
    pthread_mutex_destroy(&h->lock);
    free(h);
    return NULL;
}
