/* SPDX-License-Identifier: MIT */
/* Files of a request that go by descriptors: sealed memfds, which the receiver maps. */
#include "libcommon/error.h"
#include "libcommon/proto-writer.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE = 64 << 10 /* bytes */ };

bool proto_file_is_large(size_t n)
{
    return n > LARGE;
}

void proto_fds_fini(struct proto_fds *f)
{
    while (f->n) close(f->fds[--f->n]);
}

static int write_all(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done < 0 ? -errno : -EIO;
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

/* The descriptor, or -errno. */
static int make(const struct blob *file)
{
    int fd = memfd_create("hob-file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -errno;
    int r = write_all(fd, blob_data(file), blob_size(file));
    if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) r = -errno;
    if (r == 0) return fd;
    close(fd);
    return r;
}

int proto_fds_of(struct proto_fds *f, const struct proto_request *r)
{
    const struct proto_generate *g = &r->gen;
    f->n = 0;
    for (size_t i = 0; i < g->n_messages; i++)
        for (size_t k = 0; k < g->messages[i].n_media && f->n < PROTO_MEDIA_MAX; k++) {
            const struct blob *file = g->messages[i].media[k].file;
            if (!proto_file_is_large(blob_size(file))) continue;
            int fd = make(file);
            if (fd < 0) {
                proto_fds_fini(f);
                return error_say(fd, "cannot make a memfd of a file: %s", strerror(-fd));
            }
            f->fds[f->n++] = fd;
        }
    return 0;
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
