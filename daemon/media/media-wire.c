/* SPDX-License-Identifier: MIT */
#include "daemon/media/media-wire.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sizes are checked before they are multiplied. */
static bool is_whole(const struct media_head *h)
{
    if (h->magic != MEDIA_MAGIC || h->format >= MEDIA_FORMATS) return false;
    if (h->kind == MEDIA_NONE) return h->error < 0 && h->error > -4096 && h->size <= MEDIA_TEXT_MAX;
    if (h->kind != media_kind_of((enum media_format)h->format)) return false;
    if (h->kind == MEDIA_IMAGE)
        return h->width && h->height && h->samples == 0 && (uint64_t)h->width * h->height <= MEDIA_PIXELS_MAX &&
               h->size == (uint64_t)h->width * h->height * 3;
    return h->width == 0 && h->height == 0 && h->samples && h->samples <= MEDIA_SAMPLES_MAX &&
           h->size == h->samples * sizeof(float);
}

int media_head_check(const struct media_head *head)
{
    return is_whole(head) ? 0 : error_say(-EPROTO, "the decoder answers nonsense");
}

void media_reply_of(struct media_reply *out, struct media *m)
{
    out->head = (struct media_head){.magic = MEDIA_MAGIC,
                                    .kind = m->kind,
                                    .format = m->format,
                                    .width = m->width,
                                    .height = m->height,
                                    .samples = m->samples,
                                    .size = media_bytes(m)};
    out->data = steal(m->data);
}

int media_reply_error(struct media_reply *out, int r)
{
    char text[MEDIA_TEXT_MAX];
    const char *said = error_text(r);
    size_t n = plain_into(text, sizeof(text), said, strlen(said));
    out->head = (struct media_head){.magic = MEDIA_MAGIC, .error = r};
    out->data = malloc(n + 1);
    if (!out->data) return error_say(-ENOMEM, "no memory for a message");
    memcpy(out->data, text, n);
    out->head.size = n;
    return 0;
}

int media_reply_take(struct media_reply *reply, struct media *m)
{
    const struct media_head *h = &reply->head;
    if (h->kind == MEDIA_NONE) {
        char text[MEDIA_TEXT_MAX];
        size_t n = reply->data ? plain_into(text, sizeof(text), reply->data, h->size) : 0;
        return error_say(h->error, "%.*s", (int)n, text);
    }
    *m = (struct media){.kind = (enum media_kind)h->kind,
                        .format = (enum media_format)h->format,
                        .width = h->width,
                        .height = h->height,
                        .samples = h->samples,
                        .data = steal(reply->data)};
    return 0;
}

void media_reply_fini(struct media_reply *reply)
{
    free(reply->data);
    reply->data = NULL;
}

/* The error of a call. A peer that ended before it had read all resets the connection. */
static int failed(void)
{
    if (errno != EPIPE && errno != ECONNRESET) return error_origin(-errno);
    return error_say(-ENODATA, "the other process has ended");
}

int media_read(int fd, void *data, size_t n)
{
    for (char *to = data; n > 0;) {
        ssize_t got = read(fd, to, n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed();
        if (got == 0) return error_say(-ENODATA, "the other process has ended");
        to += got;
        n -= (size_t)got;
    }
    return 0;
}

static int put(int fd, const void *data, size_t n, bool socket)
{
    for (const char *from = data; n > 0;) {
        ssize_t done = socket ? send(fd, from, n, MSG_NOSIGNAL) : write(fd, from, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return failed();
        from += done;
        n -= (size_t)done;
    }
    return 0;
}

int media_write(int fd, const void *data, size_t n)
{
    return put(fd, data, n, false);
}

int media_send(int fd, const void *data, size_t n)
{
    return put(fd, data, n, true);
}
