/* SPDX-License-Identifier: MIT */
#include "client/find/place.h"
#include "client/find/index-store.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

int place_all(char **out)
{
    _cleanup_(freep) char *cache = NULL;
    int r = paths_dir(PATHS_CACHE, false, &cache);
    if (r < 0) return r;
    return asprintf(out, "%s/index", cache) < 0 ? error_say(-ENOMEM, "no memory for a path") : 0;
}

/* Fill @p for the folder @root, whose path is resolved. */
static int place_fill(struct place *p, const char *root)
{
    _cleanup_(freep) char *all = NULL;
    *p = (struct place)PLACE_INIT;
    int r = place_all(&all);
    if (r < 0) return r;
    p->root = strdup(root);
    if (!p->root || asprintf(&p->dir, "%s/%016" PRIx64, all, (uint64_t)XXH3_64bits(root, strlen(root))) < 0) {
        p->dir = NULL;
        return error_say(-ENOMEM, "no memory for a path");
    }
    return 0;
}

int place_of(struct place *p, const char *path)
{
    struct stat st;
    *p = (struct place)PLACE_INIT;
    _cleanup_(freep) char *root = realpath(path, NULL);
    if (!root && errno == ENOENT && *path == '/') root = strdup(path); /* a folder that was removed */
    if (!root) return error_say(-errno, "%s: %s", path, strerror(errno));
    if (stat(root, &st) == 0 && !S_ISDIR(st.st_mode)) return error_say(-ENOTDIR, "%s is not a folder", path);
    return place_fill(p, root);
}

int place_nearest(struct place *p)
{
    *p = (struct place)PLACE_INIT;
    _cleanup_(freep) char *root = realpath(".", NULL);
    if (!root) return error_say(-errno, "the working directory: %s", strerror(errno));
    for (;;) {
        _cleanup_(freep) char *file = NULL;
        int r = place_fill(p, root);
        if (r == 0 && asprintf(&file, "%s/" STORE_FILE, p->dir) < 0) {
            file = NULL;
            r = error_say(-ENOMEM, "no memory for a path");
        }
        if (r < 0 || access(file, F_OK) == 0) return r;
        place_close(p);
        char *slash = strrchr(root, '/');
        if (!slash[1]) return 1; /* "/" */
        slash[slash == root] = 0;
    }
}

int place_open(struct place *p, int make)
{
    int r = make ? paths_make(p->dir) : 0;
    if (r < 0) return r;
    p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->fd < 0 && errno == ENOENT) return 1;
    return p->fd < 0 ? error_say(-errno, "%s: %s", p->dir, strerror(errno)) : 0;
}

int place_lock(struct place *p)
{
    p->lock = openat(p->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (p->lock < 0) return error_say(-errno, "%s/lock: %s", p->dir, strerror(errno));
    if (flock(p->lock, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno != EWOULDBLOCK) return error_say(-errno, "%s/lock: %s", p->dir, strerror(errno));
    return error_say(-EBUSY, "another hob index works on the index of %s; try again when it has ended", p->root);
}

void place_close(struct place *p)
{
    closep(&p->fd);
    closep(&p->lock);
    free(p->root);
    free(p->dir);
    *p = (struct place)PLACE_INIT;
}

char *place_vectors(char out[PLACE_NAME], uint64_t generation)
{
    snprintf(out, PLACE_NAME, "vectors-%" PRIu64, generation);
    return out;
}

/* Remove the files of the index but @keep and, if @keep is given, all that are no vector files. */
static int remove_files(struct place *p, const char *keep)
{
    int fd = openat(p->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        r = -errno;
        closep(&fd);
        return r;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (*e->d_name == '.' || (keep && (strcmp(e->d_name, keep) == 0 || strncmp(e->d_name, "vectors-", 8) != 0)))
            continue;
        if (unlinkat(p->fd, e->d_name, 0) < 0) r = -errno;
    }
    closedir(d);
    return r;
}

void place_tidy(struct place *p, uint64_t generation)
{
    char keep[PLACE_NAME];
    remove_files(p, place_vectors(keep, generation));
}

int place_remove(struct place *p)
{
    int r = remove_files(p, NULL);
    if (r == 0 && rmdir(p->dir) < 0) r = -errno;
    return r < 0 ? error_say(r, "%s: %s", p->dir, strerror(-r)) : 0;
}
