/* SPDX-License-Identifier: MIT */
/* hob log on and hob log off: the key log of hob.conf. */
#include "client/exit-status.h"
#include "client/log/log-files.h"
#include "client/log/log-options.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/file.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether @line sets the key log. */
static bool is_key(const char *line)
{
    line += strspn(line, " \t");
    if (strncmp(line, "log", 3) != 0) return false;
    line += 3 + strspn(line + 3, " \t");
    return *line == '=';
}

/* Append the lines of @f with the key set to @value; a further line with the key is left out. */
static int edit(struct buf *out, FILE *f, const char *value)
{
    _cleanup_(freep) char *line = NULL;
    size_t cap = 0;
    bool set = false;
    int r = 0;
    while (r == 0 && f && getline(&line, &cap, f) >= 0) {
        if (!is_key(line)) {
            if (out->len && out->data[out->len - 1] != '\n') r = buf_puts(out, "\n");
            if (r == 0) r = buf_puts(out, line);
        } else if (!set) {
            r = buf_printf(out, "log = %s\n", value);
            set = true;
        }
    }
    if (f && ferror(f)) return -EIO;
    if (r == 0 && !set && out->len && out->data[out->len - 1] != '\n') r = buf_puts(out, "\n");
    return r == 0 && !set ? buf_printf(out, "log = %s\n", value) : r;
}

/* Write @text to a new file beside @path with the mode @mode, then rename it to @path. */
static int replace(const char *path, const struct buf *text, mode_t mode)
{
    _cleanup_(freep) char *temporary = NULL;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
        temporary = NULL;
        return -ENOMEM;
    }
    _cleanup_(closep) int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t n = write(fd, text->data, text->len);
    int r = n < 0 ? -errno : (size_t)n < text->len ? -ENOSPC : 0;
    if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0 || rename(temporary, path) < 0)) r = -errno;
    if (r < 0) unlink(temporary);
    return r;
}

static int set_key(const char *path, const char *value)
{
    _cleanup_(freep) char *real = realpath(path, NULL); /* the file behind a symbolic link */
    _cleanup_(fclosep) FILE *f = NULL;
    struct buf text = BUF_INIT;
    struct stat st = {.st_mode = 0600};
    int fd = real ? file_open_regular(real, CONF_BYTES_MAX) : -ENOENT;
    if (fd < 0 && fd != -ENOENT) return fd;
    if (fd >= 0 && (fstat(fd, &st) < 0 || !(f = fdopen(fd, "r")))) {
        close(fd);
        return error_say(-EIO, "%s: it cannot be read", real);
    }
    int r = edit(&text, f, value);
    if (r == 0) r = replace(real ? real : path, &text, st.st_mode & 0777);
    buf_fini(&text);
    return r < 0 ? error_say(r, "%s: %s", path, strerror(-r)) : 0;
}

static int turn(const struct log_options *o, const char *value)
{
    _cleanup_(freep) char *dir = NULL, *path = NULL, *database = NULL;
    int r = paths_dir(PATHS_CONFIG, false, &dir);
    if (r == 0) r = paths_make(dir);
    if (r == 0 && asprintf(&path, "%s/hob.conf", dir) < 0) r = -ENOMEM;
    if (r == 0) r = set_key(path, value);
    if (r == 0) r = log_files_database(&database);
    if (r < 0) return exit_status_report(r);
    if (strcmp(value, "yes") == 0)
        log_info("exchanges go to %s from now on (log = yes in %s)", database, path);
    else if (access(database, F_OK) == 0)
        log_info("the log is off; %s keeps what it has until 'hob log rm --all'", database);
    else
        log_info("the log is off");
    return 0;
}

int log_on(const struct log_options *o)
{
    return turn(o, "yes");
}

int log_off(const struct log_options *o)
{
    return turn(o, "no");
}
