/* SPDX-License-Identifier: MIT */
#include "daemon/cache/media/media-disk.h"
#include "daemon/cache/media/media-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define SECOND       1000000000ull
#define RESERVE_PART 20 /* the reserve is at most one part in 20 of the file system */

struct media_disk {
    char *path;
    int dir; /* has the lock (flock) while it is open */
    uint64_t bytes_max, reserve;
    pthread_mutex_t lock; /* of all below, and of the creation of names */
    struct media_table table;
    uint64_t writing; /* bytes of files that are being written */
    uint64_t damaged;
};

DEFINE_CLEANUP(struct media_disk *, media_disk_close)
DEFINE_CLEANUP(DIR *, closedir)

/* --- open --- */

static int claim(const struct media_disk *d)
{
    struct stat st;
    if (fstat(d->dir, &st) < 0) return error_say(-errno, "%s: %s", d->path, strerror(errno));
    if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
        return error_say(-EPERM, "%s belongs to another user or is writable by others", d->path);
    if (flock(d->dir, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno == EWOULDBLOCK) return error_say(-EBUSY, "%s is in use by another hobd", d->path);
    return error_say(-errno, "cannot lock %s: %s", d->path, strerror(errno));
}

/* Returns a descriptor of the caller's; -ENOENT; -EBADMSG and *wrong; -errno. Without a message. */
static int open_file(const struct media_disk *d, const char *name, struct stat *st, const char **wrong)
{
    int fd = openat(d->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno != ELOOP && errno != ENXIO && errno != EACCES) return -errno;
    if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode))
        *wrong = "is not a regular file";
    else if (st->st_uid != geteuid() || st->st_mode & (S_IRWXG | S_IRWXO))
        *wrong = "is accessible to other users";
    else
        return fd;
    closep(&fd);
    return -EBADMSG;
}

/* Index a file. 0, also if it may be read later; -EBADMSG; -ENOBUFS: it is one too many; -ENOMEM. */
static int index_file(struct media_disk *d, const char *name, const uint64_t id[2])
{
    struct media_file_header h;
    struct stat st;
    uint64_t own[2];
    const char *wrong;
    _cleanup_(closep) int fd = open_file(d, name, &st, &wrong);
    if (fd < 0) return fd == -EBADMSG ? fd : 0; /* it may have been removed */
    int r = media_file_header_read(fd, (uint64_t)st.st_size, &h, &wrong);
    if (r < 0) return r == -EBADMSG ? r : 0;
    media_name(&h.key, own);
    if (own[0] != id[0] || own[1] != id[1]) return -EBADMSG; /* the contents of another file */
    const struct media_entry x = {.name = {id[0], id[1]},
                                  .uid = h.uid,
                                  .bytes = (uint64_t)st.st_size,
                                  .used = (uint64_t)st.st_mtim.tv_sec * SECOND + (uint64_t)st.st_mtim.tv_nsec};
    return media_table_add(&d->table, &x);
}

static int scan(struct media_disk *d)
{
    int fd = openat(d->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    _cleanup_(closedirp) DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        r = error_say(-errno, "cannot list %s: %s", d->path, strerror(errno));
        closep(&fd);
        return r;
    }
    for (struct dirent *x; (x = readdir(list));) {
        uint64_t id[2];
        bool part;
        if (!media_file_name_read(x->d_name, id, &part)) continue;
        r = part ? -EBADMSG : index_file(d, x->d_name, id);
        if (r == -ENOMEM) return r;
        if (r == 0) continue;
        if (!part) d->damaged++;
        unlinkat(d->dir, x->d_name, 0);
    }
    if (d->damaged) log_warning("%s: %llu damaged files were removed", d->path, (unsigned long long)d->damaged);
    return 0;
}

int media_disk_open(struct media_disk **out, const struct media_disk_config *c)
{
    int r = paths_make(c->dir);
    if (r < 0) return r;
    _cleanup_(media_disk_closep) struct media_disk *d = calloc(1, sizeof(*d));
    if (!d) return -ENOMEM;
    d->dir = -1;
    pthread_mutex_init(&d->lock, NULL);
    d->bytes_max = c->bytes_max;
    d->reserve = c->reserve;
    d->path = strdup(c->dir);
    if (!d->path) return -ENOMEM;
    d->dir = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir < 0) return error_say(-errno, "cannot open %s: %s", d->path, strerror(errno));
    r = claim(d);
    if (r == 0) r = scan(d);
    if (r == 0) *out = steal(d);
    return r;
}

struct media_disk *media_disk_close(struct media_disk *d)
{
    if (!d) return NULL;
    closep(&d->dir);
    media_table_fini(&d->table);
    pthread_mutex_destroy(&d->lock);
    free(d->path);
    free(d);
    return NULL;
}

/* --- read --- */

bool media_disk_has(struct media_disk *d, const struct media_key *key)
{
    uint64_t name[2];
    media_name(key, name);
    pthread_mutex_lock(&d->lock);
    bool has = media_table_find(&d->table, name);
    pthread_mutex_unlock(&d->lock);
    return has;
}

/* With the lock held. The caller removes the file without it, because that can take long. If a new one is written
 * meanwhile, that is removed, and forgotten when it is read. */
static void forget(struct media_disk *d, const uint64_t name[2])
{
    struct media_entry *x = media_table_find(&d->table, name);
    if (x) media_table_remove(&d->table, x);
}

/* The file gets an mtime after those of all others; returns it. The clock can have been set back, only the order
 * counts.
 */
static uint64_t stamp(struct media_disk *d, int fd)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t ns = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
    pthread_mutex_lock(&d->lock);
    ns = d->table.uses = ns > d->table.uses ? ns : d->table.uses + 1;
    pthread_mutex_unlock(&d->lock);
    const struct timespec t[2] = {{.tv_nsec = UTIME_OMIT},
                                  {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)}};
    futimens(fd, t); /* on an error it looks older than it is */
    return ns;
}

/* It counts as used. */
static void touch(struct media_disk *d, const uint64_t name[2], int fd)
{
    uint64_t used = stamp(d, fd);
    pthread_mutex_lock(&d->lock);
    struct media_entry *x = media_table_find(&d->table, name);
    if (x) x->used = used;
    pthread_mutex_unlock(&d->lock);
}

/* 0; -EBADMSG and *wrong; -errno, without a message. */
static int read_file(struct media_disk *d, const char *file, const struct media_key *key, struct embeddings **out,
                     const char **wrong)
{
    struct media_file_header h;
    struct stat st;
    uint64_t name[2];
    _cleanup_(closep) int fd = open_file(d, file, &st, wrong);
    if (fd < 0) return fd;
    int r = media_file_header_read(fd, (uint64_t)st.st_size, &h, wrong);
    if (r == 0 && memcmp(&h.key, key, sizeof(*key)) != 0) {
        *wrong = "has the contents of another file";
        r = -EBADMSG;
    }
    if (r == 0) r = media_file_values_read(fd, &h, out, wrong);
    if (r < 0) return r;
    media_name(key, name);
    touch(d, name, fd);
    return 0;
}

int media_disk_read(struct media_disk *d, const struct media_key *key, struct embeddings **out)
{
    uint64_t name[2];
    const char *wrong;
    media_name(key, name);
    const struct media_file_name file = media_file_name(name);
    int r = read_file(d, file.s, key, out, &wrong);
    if (r == 0) return 0;
    if (r == -ENOENT || r == -EBADMSG) {
        pthread_mutex_lock(&d->lock);
        forget(d, name);
        d->damaged += r == -EBADMSG;
        pthread_mutex_unlock(&d->lock);
    }
    if (r != -EBADMSG) return error_say(r, "cannot read %s/%s: %s", d->path, file.s, strerror(-r));
    unlinkat(d->dir, file.s, 0);
    return error_say(r, "%s/%s %s", d->path, file.s, wrong);
}

/* --- write --- */

/* The most bytes that all files may have; with the lock held. */
static uint64_t budget(const struct media_disk *d)
{
    struct statvfs fs;
    uint64_t space, most = d->bytes_max, reserve = d->reserve;
    if (fstatvfs(d->dir, &fs) < 0) return 0;
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &space)) space = UINT64_MAX / 2;
    space += d->table.bytes;
    uint64_t part = (uint64_t)fs.f_blocks / RESERVE_PART * (uint64_t)fs.f_frsize;
    if (part < reserve) reserve = part;
    if (space / 10 < most) most = space / 10;
    if (space <= reserve) return 0;
    return space - reserve < most ? space - reserve : most;
}

/* Claim room for a file. With the lock held. 0; 1: it exists; 2: the caller removes the file *victim first, which is
 * forgotten; -EDQUOT and a message. */
static int claim_room(struct media_disk *d, const uint64_t name[2], uint64_t bytes, uint64_t victim[2])
{
    uint64_t most = budget(d);
    if (media_table_find(&d->table, name)) return 1;
    if (bytes > most || d->writing > most - bytes)
        return error_say(-EDQUOT, "%s: there is no room for %llu bytes", d->path, (unsigned long long)bytes);
    if (d->table.n && (d->table.n == MEDIA_ENTRIES_MAX || d->table.bytes > most - bytes - d->writing)) {
        memcpy(victim, media_table_victim(&d->table)->name, 2 * sizeof(*victim));
        forget(d, victim);
        return 2;
    }
    d->writing += bytes;
    return 0;
}

/* 0; 1: it exists; -EDQUOT and a message. */
static int make_room(struct media_disk *d, const uint64_t name[2], uint64_t bytes)
{
    uint64_t victim[2];
    for (;;) {
        pthread_mutex_lock(&d->lock);
        int r = claim_room(d, name, bytes, victim);
        pthread_mutex_unlock(&d->lock);
        if (r != 2) return r;
        unlinkat(d->dir, media_file_name(victim).s, 0);
    }
}

static int write_file(struct media_disk *d, const struct media_key *key, struct media_entry *x,
                      const struct embeddings *e)
{
    const struct media_file_name part = media_part_name(x->name), name = media_file_name(x->name);
    _cleanup_(closep) int fd = openat(d->dir, part.s, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : media_file_write(fd, key, x->uid, e);
    if (r == 0) {
        x->used = stamp(d, fd);
        pthread_mutex_lock(&d->lock);
        r = media_table_add(&d->table, x);
        if (r == 0 && renameat(d->dir, part.s, d->dir, name.s) < 0) {
            r = -errno;
            forget(d, x->name);
        }
        pthread_mutex_unlock(&d->lock);
    }
    if (r == 0) return 0;
    if (fd >= 0) unlinkat(d->dir, part.s, 0);
    return error_say(r, "cannot write %s/%s: %s", d->path, name.s, strerror(-r));
}

int media_disk_write(struct media_disk *d, const struct media_key *key, uid_t uid, const struct embeddings *e)
{
    struct media_entry x = {.uid = uid, .bytes = media_file_bytes(e->n, e->dim)};
    media_name(key, x.name);
    if ((uint64_t)e->n * e->dim > MEDIA_VALUES_MAX) return error_say(-EFBIG, "too many embeddings for a file");
    int r = make_room(d, x.name, x.bytes);
    if (r != 0) return r < 0 ? r : 0;
    r = write_file(d, key, &x, e);
    pthread_mutex_lock(&d->lock);
    d->writing -= x.bytes;
    pthread_mutex_unlock(&d->lock);
    return r;
}

void media_disk_stats(struct media_disk *d, struct media_disk_stats *out)
{
    pthread_mutex_lock(&d->lock);
    *out = (struct media_disk_stats){.files = d->table.n, .bytes = d->table.bytes, .damaged = d->damaged};
    pthread_mutex_unlock(&d->lock);
}
