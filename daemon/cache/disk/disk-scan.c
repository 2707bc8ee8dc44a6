/* SPDX-License-Identifier: MIT */
#include "daemon/cache/disk/disk-state.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

DEFINE_CLEANUP(DIR *, closedir)

enum { RECOUNT_PART = 10 }; /* at most about this part of the time is spent on counting */

struct list {
    struct disk_entry *entries;
    size_t n, cap;
};

static int add(struct list *l, const struct disk_entry *e)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        struct disk_entry *more = reallocarray(l->entries, cap, sizeof(*more));
        if (!more) return -ENOMEM;
        l->entries = more;
        l->cap = cap;
    }
    l->entries[l->n++] = *e;
    return 0;
}

static int list_dir(struct list *l, struct disk *d, DIR *dir)
{
    const struct dirent *e;
    struct stat st;
    uint64_t files = 0, bytes = 0;
    for (errno = 0; (e = readdir(dir)); errno = 0) {
        struct disk_entry x = {.inode = e->d_ino, .odd = e->d_type != DT_REG && e->d_type != DT_UNKNOWN};
        x.part = disk_part_name_read(e->d_name, &x.id.high, &x.id.low);
        if (!x.part && !disk_block_name_read(e->d_name, &x.id)) continue;
        if (add(l, &x) < 0) return -ENOMEM;
        /* A directory cannot be removed like a damaged file, so that it never counts. */
        if (x.part || e->d_type == DT_DIR || fstatat(d->dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
        files++;
        bytes += disk_file_counts(d, &st);
    }
    if (errno) return -errno;
    d->files = files;
    d->bytes = bytes;
    return 0;
}

/* The lock is held: no name is added or removed during the count. */
static int list_all(struct list *l, struct disk *d)
{
    int fd = openat(d->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir) return list_dir(l, d, dir);
    int r = -errno;
    closep(&fd);
    return r;
}

void disk_recount(struct disk *d)
{
    struct list l = {0};
    uint64_t began = clock_now_usec();
    if (!d->astray || began < d->recount_next) return;
    d->astray = list_all(&l, d) < 0;
    free(l.entries);
    uint64_t end = clock_now_usec();
    d->recount_next = end + RECOUNT_PART * (end - began);
}

int disk_list(struct disk *d, struct disk_entry **out, size_t *n)
{
    struct list l = {0};
    pthread_mutex_lock(&d->lock);
    int r = list_all(&l, d);
    pthread_mutex_unlock(&d->lock);
    *out = l.entries;
    *n = l.n;
    if (!r) return 0;
    free(l.entries);
    *out = NULL;
    return error_say(r, "cannot list %s: %s", d->path, strerror(-r));
}

/* A valid file. */
struct good {
    int64_t mtime;
    struct prefix_info info; /* owns its runs */
};

struct scan {
    struct good *files;
    size_t n;
    size_t bad;      /* damaged files that are removed */
    size_t stuck;    /* damaged files that cannot be removed */
    char first[128]; /* name and defect of the first damaged file */
};

/* The runs of @out, which are a buffer's, become its own. 0 or -ENOMEM. */
static int own_runs(struct good *out)
{
    const size_t bytes = out->info.n_runs * sizeof(*out->info.runs);
    if (bytes == 0) return 0;
    struct item_run *runs = malloc(bytes);
    if (!runs) return -ENOMEM;
    out->info.runs = memcpy(runs, out->info.runs, bytes);
    return 0;
}

/* Reads and checks the head of a block's file. 0: *out is its content; errors as disk_file_open. */
static int check(struct disk *d, const struct disk_entry *e, struct good *out, const char **wrong)
{
    struct disk_head h;
    struct stat st;
    *wrong = e->odd ? "is not a regular file" : NULL; /* opening a device can have side effects */
    if (*wrong) return -EBADMSG;
    _cleanup_(closep) int fd = disk_file_open(d, disk_block_name(e->id).s, &st, wrong);
    if (fd < 0) return fd;
    if (!disk_file_read(fd, &h, 0, NULL, 0)) *wrong = "cannot be read";
    const uint32_t lacks = *wrong ? 0 : disk_head_lacks(&h.header), n_runs = disk_file_runs(d, &st, lacks);
    if (!*wrong && n_runs == UINT32_MAX) *wrong = "is truncated or has another size";
    if (!*wrong && !disk_file_read(fd, &h, n_runs, NULL, 0)) *wrong = "cannot be read";
    if (!*wrong) *wrong = disk_head_check(&out->info, &h, n_runs, d->identity, disk_payload_bytes(d, lacks));
    if (!*wrong && (out->info.id.high != e->id.high || out->info.id.low != e->id.low))
        *wrong = "has the name of another block";
    if (*wrong) return -EBADMSG;
    out->mtime = disk_saw(d, &st.st_mtim);
    return own_runs(out);
}

/* Checks one file: adds it to the valid ones, or removes it. */
static int check_entry(struct disk *d, struct scan *s, const struct disk_entry *e)
{
    const char *wrong;
    if (e->part) {
        if (e->id.high != d->run) unlinkat(d->dir, disk_part_name(e->id.high, e->id.low).s, 0);
        return 0;
    }
    int r = check(d, e, &s->files[s->n], &wrong);
    if (r == -ENOENT) return 0; /* removed since the list was made */
    if (r == -EBADMSG) {
        if (!s->bad && !s->stuck) snprintf(s->first, sizeof(s->first), "%s %s", disk_block_name(e->id).s, wrong);
        disk_drop(d, e->id, true) ? s->bad++ : s->stuck++;
        return 0;
    }
    if (r) return error_say(r, "cannot read %s/%s: %s", d->path, disk_block_name(e->id).s, strerror(-r));
    s->n++;
    return 0;
}

static int by_inode(const void *x, const void *y)
{
    const struct disk_entry *a = x, *b = y;
    return (a->inode > b->inode) - (a->inode < b->inode);
}

/* Files with the same mtime are ordered by id, so that the order is always the same. */
static int by_use(const void *x, const void *y)
{
    const struct good *a = x, *b = y;
    if (a->mtime != b->mtime) return a->mtime < b->mtime ? -1 : 1;
    if (a->info.id.high != b->info.id.high) return a->info.id.high < b->info.id.high ? -1 : 1;
    return (a->info.id.low > b->info.id.low) - (a->info.id.low < b->info.id.low);
}

static int stopped(const struct disk *d)
{
    return error_say(-ECANCELED, "%s: stopped looking for KV blocks", d->path);
}

static int scan(struct disk *d, struct scan *s, const struct disk_entry *entries, size_t n, const atomic_bool *stop)
{
    for (size_t i = 0; i < n; i++) {
        if (stop && *stop) return stopped(d);
        int r = check_entry(d, s, &entries[i]);
        if (r) return r;
    }
    return 0;
}

/* Calls @found for each file of the scan. */
static int tell(struct disk *d, const struct scan *s, bool (*found)(void *ctx, struct prefix_info *info), void *ctx,
                const atomic_bool *stop)
{
    if (s->n) qsort(s->files, s->n, sizeof(*s->files), by_use);
    for (size_t i = 0; i < s->n; i++) {
        if (stop && *stop) return stopped(d);
        if (!found(ctx, &s->files[i].info)) disk_drop(d, s->files[i].info.id, false);
    }
    return 0;
}

int disk_scan(struct disk *d, bool (*found)(void *ctx, struct prefix_info *info), void *ctx, const atomic_bool *stop)
{
    _cleanup_(freep) struct disk_entry *entries = NULL;
    size_t n;
    int r = disk_list(d, &entries, &n);
    if (r) return r;
    _cleanup_(freep) struct good *files =
        calloc(n + 1, sizeof(*files)); /* the last one is for a file that turns out damaged */
    if (!files) return -ENOMEM;
    struct scan s = {.files = files};
    if (n) qsort(entries, n, sizeof(*entries), by_inode); /* likely their order on the disk */
    r = scan(d, &s, entries, n, stop);
    if (s.bad || s.stuck)
        log_warning("%s: of the KV blocks kept there %zu were no good and are removed, %zu cannot be; the first: %s",
                    d->path, s.bad, s.stuck, s.first);
    if (r == 0) r = tell(d, &s, found, ctx, stop);
    for (size_t i = 0; i < s.n; i++) free((struct item_run *)files[i].info.runs);
    return r;
}
