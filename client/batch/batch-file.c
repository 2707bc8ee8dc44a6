/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-file.h"
#include "client/output.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const struct batch_file *f, const char *what)
{
    int r = error_origin(-errno);
    return error_in(r, "cannot %s %s", what, f->name);
}

/* Read what the file has, and cut off a line without its end. */
static int resume_file(struct batch_file *f, struct batch_done *done)
{
    struct stat st;
    int r = batch_done_read(done, f->fd, f->name, &f->end);
    if (r < 0) return r;
    if (fstat(f->fd, &st) < 0) return failed(f, "read");
    if ((uint64_t)st.st_size == f->end) return 0;
    log_info("%s: its last line is incomplete, it is made again", f->name);
    return ftruncate(f->fd, (off_t)f->end) < 0 ? failed(f, "write") : 0;
}

int batch_file_open(struct batch_file *f, const char *name, int input, bool resume, struct batch_done *done)
{
    struct stat st, in;
    *f = (struct batch_file){.fd = name ? -1 : STDOUT_FILENO, .name = name};
    if (!name) return 0;
    f->fd = open(name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
    if (f->fd < 0 || fstat(f->fd, &st) < 0) return failed(f, "open");
    if (!S_ISREG(st.st_mode))
        return error_say(-EINVAL, "%s is not a file; without --out the results go to standard output", name);
    if (fstat(input, &in) == 0 && in.st_dev == st.st_dev && in.st_ino == st.st_ino)
        return error_say(-EINVAL, "%s is the input and the output", name);
    if (flock(f->fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK) return error_say(-EINVAL, "%s: another hob batch is writing it", name);
        return failed(f, "lock");
    }
    if (fstat(f->fd, &st) < 0) return failed(f, "read");
    if (resume) return resume_file(f, done);
    if (st.st_size) return error_say(-EINVAL, "%s has results already: give --resume to continue, or remove it", name);
    return 0;
}

/* Take back the part of a line that was written. */
static int take_back(struct batch_file *f, int r)
{
    if (ftruncate(f->fd, (off_t)f->end) < 0)
        log_warning("%s: an incomplete line remains, --resume removes it", f->name);
    return error_in(r, "cannot write %s", f->name);
}

int batch_file_write(struct batch_file *f, const struct buf *line)
{
    struct output out;
    size_t at = 0;
    if (!f->name) {
        output_init(&out, f->fd, false);
        return output_write(&out, line->data, line->len);
    }
    while (at < line->len) {
        ssize_t n = write(f->fd, line->data + at, line->len - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return take_back(f, error_origin(-errno));
        at += (size_t)n;
    }
    f->end += line->len;
    return 0;
}

int batch_file_close(struct batch_file *f)
{
    int fd = f->fd, r = 0;
    f->fd = -1;
    if (!f->name || fd < 0) return 0;
    if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS) r = failed(f, "write");
    if (close(fd) < 0 && r == 0) r = failed(f, "write");
    return r;
}
