/* SPDX-License-Identifier: MIT */
/*
 * hob models add and rm. The new model must stay valid when the original file changes or is removed, if possible
 * without a second copy on the disk. So add makes a clone where the file system supports it; else a hard link, if no
 * other user can change the bytes through the other name; else a copy.
 */
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/models/bar.h"
#include "client/models/loaded.h"
#include "client/models/metadata.h"
#include "client/models/models.h"
#include "client/models/parts.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/model-parts.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define ADD_PIECE (8u << 20) /* bytes between two checks for an interrupt */

static int add_open(const char *path, int *fd, struct stat *st)
{
    /* O_NONBLOCK: the path may name a pipe, which is refused below. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 || fstat(*fd, st) < 0) return error_say(-errno, "%s", strerror(errno));
    return S_ISREG(st->st_mode) ? 0 : error_say(-EINVAL, "not a regular file");
}

static int copy_bytes(struct place *p, int from, uint64_t size, bool quiet)
{
    struct bar bar = {.name = p->name, .on = !quiet && isatty(STDERR_FILENO)};
    off_t at = 0;
    int r = place_room(p, size);
    while (r == 0 && (uint64_t)at < size) {
        ssize_t n = sendfile(p->fd, from, &at, ADD_PIECE);
        if (interrupted())
            r = -EINTR;
        else if (n < 0 && errno != EINTR)
            r = error_say(-errno, "%s/%s: %s", p->folder, p->part, strerror(errno));
        else if (n == 0)
            r = error_say(-ESTALE, "the file was truncated during the copy");
        bar_show(&bar, (uint64_t)at, size, interrupt_now());
    }
    bar_clear(&bar);
    return r;
}

/* Make the link under its final name (with --force as NAME.gguf.link, then rename it), never as the .part: the next
 * writer of the .part would overwrite the original. @target: the target of a symbolic link; NULL: make a hard link to
 * the descriptor @from. 0; 1: no link is possible; -errno; sets the error message. */
static int add_link(const struct models_options *o, struct place *p, const char *target, int from)
{
    const char *as = o->force ? p->link : p->file;
    char fd[32];
    snprintf(fd, sizeof(fd), "/proc/self/fd/%d", from);
    if (o->force) unlinkat(p->dir, p->link, 0);
    int r = target ? symlinkat(target, p->dir, as) : linkat(AT_FDCWD, fd, p->dir, as, AT_SYMLINK_FOLLOW);
    if (r < 0) {
        r = -errno;
        if (place_vacant(p, o->force) < 0) return -EEXIST;
        return target ? error_say(r, "%s/%s: %s", p->folder, as, strerror(-r)) : 1;
    }
    return o->force ? place_replace(p) : 0;
}

/* Clone or copy into the .part, which is open. @did receives the verb for the message. */
static int add_bytes(const struct models_options *o, struct place *p, int from, const struct stat *st, const char **did)
{
    bool alone =
        st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH)) && (!o->system || st->st_mode & S_IROTH);
    int r;

    if (ftruncate(p->fd, 0) < 0) return error_origin(-errno);
    *did = "cloned";
    if (ioctl(p->fd, FICLONE, from) == 0) return place_commit(p, o->force);
    *did = "linked";
    r = o->copy || !alone ? 1 : add_link(o, p, NULL, from);
    if (r == 0) place_discard(p);
    if (r <= 0) return r;
    *did = "copied";
    r = copy_bytes(p, from, (uint64_t)st->st_size, o->quiet);
    return r == 0 ? place_commit(p, o->force) : r;
}

/* True if the absolute path @target, with links resolved, is the model's own file: a link there would replace the file
 * that it names. */
static bool is_own_file(const struct place *p, const char *target)
{
    const char *slash = strrchr(target, '/');
    _cleanup_(freep) char *dir = strndup(target, (size_t)(slash - target) + 1);
    struct stat there, folder;
    return strcmp(slash + 1, p->file) == 0 &&
           (!dir || (stat(dir, &there) == 0 && fstat(p->dir, &folder) == 0 && there.st_dev == folder.st_dev &&
                     there.st_ino == folder.st_ino));
}

static int add_symlink(const struct models_options *o, struct place *p, const char *path)
{
    _cleanup_(freep) char *target = realpath(path, NULL);
    if (!target) return error_origin(-errno);
    if (is_own_file(p, target)) return error_say(-EEXIST, "the file is already the model '%s'", p->name);
    int r = add_link(o, p, target, -1);

    if (r == 0) place_discard(p);
    return r;
}

/* Keep an incomplete pull unless --force is given. */
static int add_begin(const struct models_options *o, struct place *p)
{
    struct stat st;
    int r = place_vacant(p, o->force);
    if (r == 0) r = place_begin(p);
    if (r == 0 && !o->force && fstatat(p->dir, p->from, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        closep(&p->fd);
        return error_say(
            -EEXIST, "an incomplete pull of the model '%s' exists: delete it with hob models rm '%s', or use --force",
            p->name, p->name);
    }
    return r;
}

/* Add one file. @p is begun; its .part is gone on return. */
static int add_file(const struct models_options *o, struct place *p, const char *path, int from, const struct stat *st,
                    const char **did)
{
    int r = o->link ? add_symlink(o, p, path) : add_bytes(o, p, from, st, did);
    if (r < 0 && p->fd >= 0) place_discard(p);
    return r;
}

static int add_part(const struct models_options *o, const struct place *first, const char *path, uint32_t no,
                    uint32_t count)
{
    /* The first part does not exist, so a part that does is a leftover. */
    struct models_options over = *o;
    over.force = true;
    _cleanup_(closep) int from = -1;
    const char *did;
    struct place p;
    struct stat st;
    int r = parts_place(&p, first, no, count);
    if (r == 0) r = add_open(path, &from, &st);
    if (r == 0) r = place_begin(&p);
    if (r == 0) r = add_file(&over, &p, path, from, &st, &did);
    place_close(&p);
    return r < 0 ? error_in(r, "%s", path) : 0;
}

/* Add the parts behind the first, which is at @path. A first part that --force replaces goes before, so that the parts
 * of two models never stand together. */
static int add_rest(const struct models_options *o, const struct place *p, const char *path, uint32_t count)
{
    int r = 0;
    if (count > 1) unlinkat(p->dir, p->file, 0);
    for (uint32_t no = 2; r == 0 && no <= count; no++) {
        _cleanup_(freep) char *part = NULL;
        r = model_part_path(&part, path, no, count);
        if (r == 0) r = add_part(o, p, part, no, count);
    }
    return r;
}

/* @base: the model's file, of an adapter; NULL: a model. */
static int add_checked(const struct models_options *o, struct place *p, const char *path, const char *base,
                       struct metadata *f)
{
    _cleanup_(closep) int from = -1;
    const char *did = "linked";
    char by_fd[48];
    struct stat st;
    int r = add_open(path, &from, &st);
    if (r < 0) return r;
    /* Check the opened file, even if the name changes meanwhile. */
    snprintf(by_fd, sizeof(by_fd), "/proc/%d/fd/%d", (int)getpid(), from);
    r = base ? metadata_check_adapter(f, by_fd, base) : metadata_check(f, by_fd, p->name);
    if (r < 0) return r;
    r = add_begin(o, p);
    if (r == 0) {
        r = add_rest(o, p, path, (uint32_t)f->parts);
        if (r == 0)
            r = add_file(o, p, path, from, &st, &did);
        else
            place_discard(p);
        parts_remove(p, r == 0 ? (uint32_t)f->parts : 0);
    }
    if (r == 0 && base)
        log_info("%s the adapter %s of %s; to use it: hob -m '%s' --adapter '%s' (after a restart of its daemon)", did,
                 p->name, o->adapter_of, o->adapter_of, p->name);
    else if (r == 0)
        metadata_log(f, did, p->name, o->system);
    else
        metadata_fini(f);
    return r;
}

/* *base: of an adapter, the model's file. */
static int open_place(const struct models_options *o, struct place *p, char *name, bool make, char **base)
{
    if (o->adapter_of) return place_open_adapter(p, name, o->adapter_of, o->system, make, base);
    return place_open(p, name, o->system, make);
}

int models_add(const struct models_options *o)
{
    struct place p = PLACE_INIT;
    struct metadata f;
    char *name = NULL;
    _cleanup_(freep) char *base = NULL;
    int r = place_name(o->n_words > 1 ? o->words[1] : NULL, o->words[0], &name);
    if (r < 0) {
        log_error("%s", error_text(r));
        return EXIT_USAGE;
    }
    r = open_place(o, &p, name, true, &base);
    if (r == 0) {
        r = add_checked(o, &p, o->words[0], base, &f);
        if (r == 0)
            metadata_fini(&f);
        else
            error_in(r, "%s", o->words[0]);
    }
    place_close(&p);
    if (r != -EBUSY) return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
    log_error("%s", error_text(r));
    return EXIT_BUSY;
}

static int remove_one(const struct models_options *o, const char *given)
{
    struct place p = PLACE_INIT;
    char *name = NULL;
    _cleanup_(freep) char *base = NULL;
    int r = place_name(given, NULL, &name), removed = 0;
    if (r < 0) return r;
    r = open_place(o, &p, name, false, &base);
    if (r == 0) {
        if (unlinkat(p.dir, p.file, 0) == 0)
            removed = 1;
        else if (errno != ENOENT)
            r = error_say(-errno, "%s/%s: %s", p.folder, p.file, strerror(errno));
    }
    if (r == 0 && parts_remove(&p, 0)) removed = 1;
    /* Remove an incomplete pull, unless it is running. */
    if (r == 0 && faccessat(p.dir, p.part, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        r = place_begin(&p);
        if (r == 0) place_discard(&p);
        if (r == -EBUSY && removed) r = 0;
        removed = 1;
    }
    if (r == -ENOENT || (r == 0 && !removed))
        r = error_say(-ENOENT, "no %s '%s' in %s", o->adapter_of ? "adapter" : "model", p.name,
                      p.folder ? p.folder : "your models folder");
    if (r == 0 && removed && !o->adapter_of && loaded_by(p.name, o->system) > 0)
        log_info("a daemon still uses the model %s; to stop it: hob stop -m '%s'", p.name, p.name);
    place_close(&p);
    return r;
}

int models_remove(const struct models_options *o)
{
    int status = 0;
    /* Like rm(1): a failure does not stop the removal of the others. */
    for (size_t i = 0; i < o->n_words; i++) {
        int r = remove_one(o, o->words[i]);
        if (r == 0) continue;
        log_error("%s", error_text(r));
        status = r == -EBUSY ? EXIT_BUSY : r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
    }
    return status;
}
