/* SPDX-License-Identifier: MIT */
#include "client/models/place.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/model-parts.h"
#include "libcommon/paths.h"
#include "libcommon/units.h"
#include "libcommon/utf8.h"
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static bool ends_in_gguf(const char *s, size_t n)
{
    return n >= 5 && strncasecmp(s + n - 5, ".gguf", 5) == 0;
}

int place_name(const char *given, const char *path, char **out)
{
    const char *base = given, *slash;
    uint32_t no, count;
    size_t stem;
    _cleanup_(freep) char *name = NULL, *same = NULL;
    if (!given) {
        slash = strrchr(path, '/');
        base = slash ? slash + 1 : path;
    }
    size_t n = strlen(base);
    if (!given && model_part_named(base, &stem, &no, &count))
        n = stem;
    else if (ends_in_gguf(base, n))
        n -= 5;
    name = strndup(base, n);
    if (!name) return error_say(-ENOMEM, "no memory for a name");
    if (strchr(name, '/')) return error_say(-EINVAL, "a model's name must not contain '/': %.64s", name);
    if (ends_in_gguf(name, n)) return error_say(-EINVAL, "a model's name must not end in .gguf twice: %.64s", name);
    if (utf8_check(name, n) < n) return error_say(-EINVAL, "a model's name must be UTF-8");
    /* Check that hobd derives the same name. */
    int r = paths_model_name(name, &same);
    if (r < 0) return given ? r : error_in(r, "give a NAME");
    *out = steal(name);
    return 0;
}

/* All users, hobd's own among them, may read the system's models, whatever the umask of root is. */
static int make_open(const char *dir)
{
    if (mkdir(dir, 0755) == 0 ? chmod(dir, 0755) == 0 : errno == EEXIST) return 0;
    return error_say(-errno, "cannot make %s: %s", dir, strerror(errno));
}

static int make_system(const char *folder)
{
    _cleanup_(freep) char *up = strndup(folder, (size_t)(strrchr(folder, '/') - folder));
    int r = up ? make_open(up) : error_say(-ENOMEM, "no memory for a path");
    return r < 0 ? r : make_open(folder);
}

/* Open p->folder, and make the names of the files in it. */
static int open_folder(struct place *p)
{
    const char *name = p->name;
    snprintf(p->file, PLACE_FILE, "%s.gguf", name);
    snprintf(p->part, PLACE_FILE, "%s.gguf.part", name);
    snprintf(p->from, PLACE_FILE, "%s.gguf.part.from", name);
    snprintf(p->link, PLACE_FILE, "%s.gguf.link", name);
    p->dir = open(p->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p->dir < 0 ? error_say(-errno, "%s: %s", p->folder, strerror(errno)) : 0;
}

void place_close(struct place *p)
{
    closep(&p->fd);
    closep(&p->dir);
    free(p->folder);
    free(p->name);
    *p = (struct place)PLACE_INIT;
}

char *place_path(const struct place *p, const char *file)
{
    char *path;
    return asprintf(&path, "%s/%s", p->folder, file) < 0 ? NULL : path;
}

static int there_already(const struct place *p)
{
    return error_say(-EEXIST, "the model '%s' already exists (%s/%s): --force replaces it", p->name, p->folder,
                     p->file);
}

int place_open(struct place *p, char *name, bool system, bool make)
{
    *p = (struct place)PLACE_INIT;
    p->name = name;
    p->system = system;
    int r = paths_dir(PATHS_MODELS, system, &p->folder);
    if (r == 0 && make) r = system ? make_system(p->folder) : paths_make(p->folder);
    return r < 0 ? r : open_folder(p);
}

int place_open_adapter(struct place *p, char *name, const char *model, bool system, bool make, char **base)
{
    _cleanup_(freep) char *folder = NULL;
    *p = (struct place)PLACE_INIT;
    p->name = name;
    p->system = system;
    int r = paths_dir(PATHS_MODELS, system, &folder);
    if (r < 0) return r;
    if (asprintf(base, "%s/%s.gguf", folder, model) < 0) *base = NULL;
    if (asprintf(&p->folder, "%s/%s.adapters", folder, model) < 0) p->folder = NULL;
    if (!*base || !p->folder) return error_say(-ENOMEM, "no memory for a path");
    if (access(*base, F_OK) < 0) return error_say(-ENOENT, "no model '%s' in %s", model, folder);
    if (make) r = system ? make_open(p->folder) : paths_make(p->folder);
    if (r < 0 || make || access(p->folder, F_OK) == 0) return r < 0 ? r : open_folder(p);
    return error_say(-ENOENT, "the model '%s' has no adapters", model);
}

int place_vacant(const struct place *p, bool force)
{
    struct stat st;
    if (fstatat(p->dir, p->file, &st, AT_SYMLINK_NOFOLLOW) < 0) return 0;
    if (S_ISDIR(st.st_mode)) return error_say(-EEXIST, "%s/%s is a directory", p->folder, p->file);
    return force ? 0 : there_already(p);
}

int place_begin(struct place *p)
{
    struct stat ours, there;
    for (;;) {
        _cleanup_(closep) int fd =
            openat(p->dir, p->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
        if (fd < 0) return error_say(-errno, "%s/%s: %s", p->folder, p->part, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            if (errno == EWOULDBLOCK) return error_say(-EBUSY, "another process is adding the model '%s'", p->name);
            return error_say(-errno, "%s/%s: %s", p->folder, p->part, strerror(errno));
        }
        if (fstat(fd, &ours) < 0) return error_origin(-errno);
        if (!S_ISREG(ours.st_mode)) return error_say(-EINVAL, "%s/%s is not a regular file", p->folder, p->part);
        /* The previous owner of the lock may have renamed or removed the .part after it was opened here. */
        if (fstatat(p->dir, p->part, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_dev == ours.st_dev &&
            there.st_ino == ours.st_ino) {
            p->fd = fd;
            fd = -1;
            return 0;
        }
    }
}

void place_discard(struct place *p)
{
    unlinkat(p->dir, p->from, 0);
    unlinkat(p->dir, p->part, 0);
    closep(&p->fd);
}

int place_replace(struct place *p)
{
    int r = renameat(p->dir, p->link, p->dir, p->file) < 0 ? -errno : 0;
    unlinkat(p->dir, p->link, 0); /* if both are the same file, rename leaves both names */
    if (r == 0 && fsync(p->dir) < 0) r = -errno;
    return r < 0 ? error_say(r, "%s/%s: %s", p->folder, p->file, strerror(-r)) : 0;
}

int place_commit(struct place *p, bool force)
{
    if (p->system) fchmod(p->fd, 0644); /* independent of the umask */
    if (fsync(p->fd) < 0) return error_say(-errno, "%s/%s: %s", p->folder, p->part, strerror(errno));
    int r = renameat2(p->dir, p->part, p->dir, p->file, force ? 0 : RENAME_NOREPLACE);
    /* Some file systems do not support RENAME_NOREPLACE; link() never replaces. */
    if (r < 0 && !force && errno == EINVAL) {
        r = linkat(p->dir, p->part, p->dir, p->file, 0);
        if (r == 0) unlinkat(p->dir, p->part, 0);
    }
    if (r < 0 && errno == EEXIST) return there_already(p);
    if (r < 0) return error_say(-errno, "%s/%s: %s", p->folder, p->file, strerror(errno));
    unlinkat(p->dir, p->from, 0);
    closep(&p->fd);
    return fsync(p->dir) < 0 ? error_say(-errno, "%s: %s", p->folder, strerror(errno)) : 0;
}

int place_room(const struct place *p, uint64_t bytes)
{
    char needs[16], has[16];
    struct statvfs fs;
    uint64_t room;
    if (fstatvfs(p->dir, &fs) < 0) return 0; /* the write will report the error */
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &room) || bytes <= room) return 0;
    return error_say(-ENOSPC, "no space in %s: %s needed, %s free", p->folder, format_size(needs, bytes),
                     format_size(has, room));
}
