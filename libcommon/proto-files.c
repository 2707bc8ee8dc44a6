/* SPDX-License-Identifier: MIT */
/* Files of a request that go by descriptors: sealed memfds, which the receiver maps. */
#include "libcommon/proto-writer.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE = 64 << 10 /* bytes */, NOEXEC_SEAL = 8 /* MFD_NOEXEC_SEAL */ };

bool proto_file_is_large(size_t n)
{
    return n > LARGE;
}

void proto_fds_fini(struct proto_fds *f)
{
    while (f->n) close(f->fds[--f->n]);
}

static bool write_all(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* The descriptor; -1: none can be made. */
static int make(const struct blob *file)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("hob-file", flags | NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create("hob-file", flags); /* before Linux 6.3 */
    if (fd < 0) return -1;
    if (write_all(fd, blob_data(file), blob_size(file)) &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return -1;
}

void proto_fds_of(struct proto_fds *f, const struct proto_request *r)
{
    const struct proto_generate *g = &r->gen;
    f->n = 0;
    for (size_t i = 0; i < g->n_messages; i++)
        for (size_t k = 0; k < g->messages[i].n_media && f->n < PROTO_MEDIA_MAX; k++) {
            const struct blob *file = g->messages[i].media[k].file;
            if (!proto_file_is_large(blob_size(file))) continue;
            int fd = make(file);
            if (fd < 0) return;
            f->fds[f->n++] = fd;
        }
}

void proto_set_files(struct proto_request *r, struct blob *const *files)
{
    struct proto_generate *g = &r->gen;
    for (size_t i = 0; i < g->n_messages; i++)
        for (size_t k = 0; k < g->messages[i].n_media; k++) {
            struct proto_media *m = &g->messages[i].media[k];
            if (!m->file) m->file = blob_ref(files[m->fd]);
        }
    for (uint32_t i = 0; i < r->n_fds; i++) r->bytes += blob_size(files[i]);
}
