/* SPDX-License-Identifier: MIT */
#include "client/find/walk.h"
#include "client/find/ignore.h"
#include "client/interrupt.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

enum { RULES_MAX = 1 << 20 }; /* bytes of a .gitignore file */

/* A folder on the way. */
struct folder {
    int fd;
    unsigned depth;
    struct ignore ignore;
};

static int walk_folder(struct walk *w, struct buf *path, int fd, unsigned depth, const struct ignore *above);

/* Read the folder's .gitignore file. 0 or -ENOMEM. */
static int read_rules(struct walk *w, struct folder *f)
{
    struct stat st;
    _cleanup_(closep) int fd = openat(f->fd, ".gitignore", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return 0;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > RULES_MAX) {
        w->counts.unreadable++;
        return 0;
    }
    _cleanup_(freep) char *text = malloc(RULES_MAX);
    ssize_t n = text ? read(fd, text, RULES_MAX) : 0;
    return text ? ignore_add(&f->ignore, text, n > 0 ? (size_t)n : 0) : -ENOMEM;
}

/* Read the names of a folder, sorted by their bytes. The caller frees all. The number, or -errno. */
static int list_names(int fd, struct dirent ***out)
{
    int n = scandirat(fd, ".", out, NULL, NULL);
    return n < 0 ? -errno : n;
}

static int by_name(const void *a, const void *b)
{
    const struct dirent *const *x = a, *const *y = b;
    return strcmp((*x)->d_name, (*y)->d_name);
}

static int enter(struct walk *w, struct buf *path, struct folder *f, const char *name)
{
    if (f->depth >= WALK_DEPTH_MAX) {
        w->counts.deep++;
        return 0;
    }
    int fd = openat(f->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        w->counts.unreadable++;
        return 0;
    }
    int r = buf_puts(path, "/");
    if (r == 0) return walk_folder(w, path, fd, f->depth + 1, &f->ignore);
    close(fd);
    return r;
}

/* Handle one name, which @path ends with. */
static int visit(struct walk *w, struct buf *path, struct folder *f, const char *name)
{
    struct stat st;
    if (fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return 0; /* it was removed meanwhile */
    if (S_ISLNK(st.st_mode)) w->counts.links++;
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) return 0;
    if (!w->all && ignore_match(&f->ignore, path->data, S_ISDIR(st.st_mode))) return 0;
    if (S_ISDIR(st.st_mode)) return enter(w, path, f, name);
    if ((uint64_t)st.st_size > w->max_size) {
        w->counts.large++;
        return 0;
    }
    w->counts.files++;
    return w->fn(w->ctx, path->data, &st);
}

/* Walk the folder @fd, which is closed. @path: its path, with a slash at the end unless it is empty. */
static int walk_folder(struct walk *w, struct buf *path, int fd, unsigned depth, const struct ignore *above)
{
    struct folder f = {.fd = fd, .depth = depth, .ignore = {.above = above, .base = path->len}};
    struct dirent **names = NULL;
    int r = w->all ? 0 : read_rules(w, &f), n = r == 0 ? list_names(fd, &names) : 0;
    if (n == -ENOMEM) r = n;
    if (n < 0) w->counts.unreadable++;
    if (n > 0) qsort(names, (size_t)n, sizeof(*names), by_name);
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (r == 0 && interrupted()) r = -EINTR;
        if (r == 0 && *name != '.') {
            r = buf_puts(path, name);
            if (r == 0) r = visit(w, path, &f, name);
            path->len = f.ignore.base;
            if (path->data) path->data[path->len] = 0;
        }
        free(names[i]);
    }
    free(names);
    ignore_fini(&f.ignore);
    close(fd);
    return r;
}

int walk_tree(struct walk *w)
{
    struct buf path = BUF_INIT;
    w->counts = (struct walk_counts){0};
    int fd = openat(w->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return error_say(-errno, "cannot read the folder: %s", strerror(errno));
    int r = walk_folder(w, &path, fd, 0, NULL);
    buf_fini(&path);
    return r == -ENOMEM ? error_say(r, "no memory for the names of a folder") : r;
}
