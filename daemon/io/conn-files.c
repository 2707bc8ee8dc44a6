/* SPDX-License-Identifier: MIT */
#include "daemon/io/conn-files.h"
#include "daemon/io/close-apart.h"
#include "libcommon/blob.h"
#include "libcommon/error.h"
#include "libcommon/proto.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONTROL_FDS = 253 /* SCM_MAX_FD: of those that it cannot deliver, the kernel closes the files at once */ };

static size_t memory_of(const struct passed *p)
{
    return blob_size(p->file) + (p->why ? strlen(p->why) + 1 : 0);
}

size_t conn_files_memory(const struct conn_files *f)
{
    return f->bytes + f->cap * sizeof(*f->list);
}

static void drop(struct conn_files *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        f->bytes -= memory_of(&f->list[i]);
        blob_unref(f->list[i].file);
        free(f->list[i].why);
    }
    f->n -= n;
    if (f->n) memmove(f->list, f->list + n, f->n * sizeof(*f->list));
}

void conn_files_fini(struct conn_files *f)
{
    drop(f, f->n);
    free(f->list);
    *f = (struct conn_files){.received = f->received, .uid = f->uid};
}

/* Map the file of @fd and close it. */
static void add(struct conn_files *f, int fd, uint64_t until)
{
    struct passed p = {.until = until};
    p.error = blob_map(&p.file, fd, PROTO_FILE_MAX);
    if (p.error < 0) p.why = strdup(error_text(p.error));
    f->bytes += memory_of(&p);
    f->list[f->n++] = p;
    /* Closing a memfd takes no time. Other files may wait for a process of the peer. */
    if (fcntl(fd, F_GET_SEALS) >= 0)
        close(fd);
    else
        close_apart(fd, f->uid);
}

/* Make room for one more. 0, -EPROTO or -ENOMEM. */
static int reserve(struct conn_files *f)
{
    if (f->n == PROTO_MEDIA_MAX)
        return error_say(-EPROTO, "more than %d descriptors came for messages that are not complete", PROTO_MEDIA_MAX);
    if (f->n < f->cap) return 0;
    size_t cap = f->cap ? 2 * f->cap : 4;
    struct passed *list = reallocarray(f->list, cap, sizeof(*list));
    if (!list) return error_say(-ENOMEM, "no memory for a descriptor");
    f->list = list;
    f->cap = cap;
    return 0;
}

/* Take the descriptors of @m, which came before byte @until. */
static int take(struct conn_files *f, struct msghdr *m, uint64_t until)
{
    int r = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (r == 0) r = reserve(f);
            if (r == 0)
                add(f, fd, until);
            else
                close_apart(fd, f->uid);
        }
    }
    if (r == 0 && m->msg_flags & MSG_CTRUNC) {
        r = reserve(f);
        if (r == 0) f->list[f->n++] = (struct passed){.error = -EBADF, .until = until, .lost = true};
    }
    return r;
}

ssize_t conn_files_receive(struct conn_files *f, int fd, void *p, size_t n, bool *partial)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(CONTROL_FDS * sizeof(int))];
    } control;
    struct iovec piece = {p, n};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    size_t waiting = close_apart_waiting(f->uid);
    *partial = false;
    if (waiting >= CLOSE_APART_MAX)
        return error_say(-EBUSY, "%zu descriptors of uid %lu wait to be closed; try again", waiting,
                         (unsigned long)f->uid);
    ssize_t got = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    *partial = got > 0 && (m.msg_controllen || m.msg_flags & MSG_CTRUNC);
    if (got < 0) return -errno;
    f->received += (uint64_t)got;
    if (!*partial) return got;
    int r = take(f, &m, f->received);
    return r < 0 ? r : got;
}

/* The files of @r, the first ones of the list. */
static int give(struct conn_files *f, struct proto_request *r)
{
    struct blob *files[PROTO_MEDIA_MAX];
    for (uint32_t i = 0; i < r->n_fds && i < f->n; i++)
        if (f->list[i].lost)
            return error_say(-EBADF, "fds: hobd has no room for descriptor %u; try again", (unsigned)i);
    if (f->n < r->n_fds)
        return error_say(-EBADF, "fds: %u descriptors are announced, but %zu came", (unsigned)r->n_fds, f->n);
    for (uint32_t i = 0; i < r->n_fds; i++) {
        const struct passed *p = &f->list[i];
        if (!p->file) return error_say(p->error, "fds: descriptor %u: %s", (unsigned)i, p->why ? p->why : "no memory");
        files[i] = p->file;
    }
    proto_set_files(r, files);
    return 0;
}

int conn_files_give(struct conn_files *f, struct proto_request *r, int result, size_t left)
{
    size_t n = 0;
    if (result == 0 && r->n_fds) {
        result = give(f, r);
        if (result < 0) { /* the message stays: it has its id */
            const struct proto_request kept = {.type = r->type, .id = r->id, .n_fds = r->n_fds};
            proto_request_fini(r);
            *r = kept;
        }
    }
    if (!f->n) return result;
    /* Where descriptors were lost, those behind may belong to later messages. */
    while (n < f->n && n < r->n_fds && !f->list[n].lost) n++;
    while (n < f->n && f->list[n].until <= f->received - left) n++;
    drop(f, n);
    return result;
}
