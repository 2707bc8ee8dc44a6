/* SPDX-License-Identifier: MIT */
#include "daemon/model/partfile.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>

struct part_name {
    char s[sizeof(((struct partfile *)0)->name) + sizeof(PARTFILE_SUFFIX)];
};

static struct part_name part_name(const struct partfile *p)
{
    struct part_name n;
    snprintf(n.s, sizeof(n.s), "%s" PARTFILE_SUFFIX, p->name);
    return n;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Lock the open file. Returns 0; 1 if it is locked, or the name now refers to another file; -errno. */
static int lock(int dir, int fd, const char *name)
{
    struct stat ours, there;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) return errno == EWOULDBLOCK ? 1 : -errno;
    if (fstat(fd, &ours) < 0) return -errno;
    return fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) < 0 || !same(&ours, &there);
}

int partfile_begin(struct partfile *p, const char *dir, const char *name)
{
    int r = 0;
    assert(strlen(name) < sizeof(p->name));
    *p = (struct partfile)PARTFILE_INIT;
    strcpy(p->name, name);
    p->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->dir < 0) r = -errno;
    struct part_name part = part_name(p);
    if (!r) {
        int fd = openat(p->dir, part.s, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
        r = fd < 0 ? -errno : lock(p->dir, fd, part.s);
        if (!r && ftruncate(fd, 0) < 0) r = -errno;
        if (!r)
            p->fd = fd;
        else if (fd >= 0)
            close(fd);
    }
    if (!r) return 0;
    partfile_end(p);
    return r > 0 ? r : error_say(r, "%s/%s: %s", dir, part.s, strerror(-r));
}

int partfile_commit(struct partfile *p)
{
    struct part_name part = part_name(p);
    int r = 0;
    if (fsync(p->fd) < 0 || renameat(p->dir, part.s, p->dir, p->name) < 0) r = -errno;
    if (r) return error_say(r, "%s: %s", part.s, strerror(-r));
    close(p->fd);
    p->fd = -1;
    fsync(p->dir); /* after a power loss the file may be missing; it is then made again */
    return 0;
}

void partfile_end(struct partfile *p)
{
    if (p->fd >= 0) {
        unlinkat(p->dir, part_name(p).s, 0);
        close(p->fd);
    }
    if (p->dir >= 0) close(p->dir);
    p->fd = p->dir = -1;
}

void partfile_sweep(int dir, const char *name)
{
    _cleanup_(closep) int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && lock(dir, fd, name) == 0) unlinkat(dir, name, 0);
}

bool partfile_is_none(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EPERM;
}

int partfile_open(const char *dir, const char *name, struct stat *st)
{
    _cleanup_(closep) int d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d < 0) return -errno;
    _cleanup_(closep) int fd = openat(d, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, st) < 0) return -errno;
    if (!S_ISREG(st->st_mode) || st->st_uid != geteuid() || st->st_mode & (S_IWGRP | S_IWOTH)) return -EPERM;
    int r = fd;
    fd = -1;
    return r;
}
