/* SPDX-License-Identifier: MIT */
#include "daemon/cache/disk/disk-state.h"
#include "libcommon/cleanup.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

uint64_t disk_payload_bytes(const struct disk *d, uint32_t lacks)
{
    uint64_t bytes = d->payload;
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++)
        if (lacks >> g & 1) bytes -= d->parts_bytes[g];
    return bytes;
}

/* A block has at most as many parts of runs as tokens. */
uint32_t disk_file_runs(const struct disk *d, const struct stat *st, uint32_t lacks)
{
    const uint64_t size = (uint64_t)st->st_size, least = sizeof(struct disk_header) + disk_payload_bytes(d, lacks);
    if (size < least || size - least > KV_BLOCK * sizeof(struct item_run)) return UINT32_MAX;
    return (size - least) % sizeof(struct item_run) ? UINT32_MAX : (uint32_t)((size - least) / sizeof(struct item_run));
}

/* Group 0 is in every file. */
static bool possible_size(const struct disk *d, const struct stat *st)
{
    for (uint32_t lacks = 0; lacks < 1u << KV_GROUPS_MAX; lacks += 2)
        if (disk_file_runs(d, st, lacks) != UINT32_MAX) return true;
    return false;
}

int disk_file_open(const struct disk *d, const char *name, struct stat *st, const char **wrong)
{
    _cleanup_(closep) int fd = openat(d->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    *wrong = NULL;
    if (fd < 0 && (errno == ELOOP || errno == ENXIO))
        *wrong = "is not a regular file";
    else if (fd < 0 && (errno == EACCES || errno == EPERM))
        *wrong = "is accessible to other users";
    else if (fd < 0 && errno == EIO)
        *wrong = "cannot be read";
    else if (fd < 0 || fstat(fd, st) < 0)
        return -errno;
    else if (!S_ISREG(st->st_mode))
        *wrong = "is not a regular file";
    else if (st->st_uid != geteuid() || st->st_mode & (S_IRWXG | S_IRWXO))
        *wrong = "is accessible to other users";
    else if (!possible_size(d, st))
        *wrong = "is truncated or has another size";
    if (*wrong) return -EBADMSG;
    int r = fd;
    fd = -1;
    return r;
}

/* Skips @done bytes of the buffers. */
static void advance(struct iovec **v, int *n, size_t done)
{
    while (*n && done >= (*v)->iov_len) {
        done -= (*v)->iov_len;
        ++*v, --*n;
    }
    if (!*n) return;
    (*v)->iov_base = (char *)(*v)->iov_base + done;
    (*v)->iov_len -= done;
}

bool disk_file_read(int fd, struct disk_head *h, uint32_t n_runs, void *payload, uint64_t payload_bytes)
{
    struct iovec both[2] = {{h, disk_head_bytes(n_runs)}, {payload, payload_bytes}}, *v = both;
    int n = payload ? 2 : 1;
    for (off_t at = 0; n;) {
        ssize_t r = preadv(fd, v, n, at);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return false;
        advance(&v, &n, (size_t)r);
        at += r;
    }
    return true;
}

int disk_file_write(int fd, const struct disk_head *h, uint32_t n_runs, const void *payload, uint64_t payload_bytes)
{
    struct iovec both[2] = {{(void *)h, disk_head_bytes(n_runs)}, {(void *)payload, payload_bytes}}, *v = both;
    int n = 2;
    while (n) {
        ssize_t r = writev(fd, v, n);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return r ? -errno : -EIO;
        advance(&v, &n, (size_t)r);
    }
    return 0;
}
