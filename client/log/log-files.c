/* SPDX-License-Identifier: MIT */
#include "client/log/log-files.h"
#include "client/interrupt.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_WAIT_MS 2000
#define LOCK_POLL_MS 2

static int state_file(const char *name, char **out)
{
    _cleanup_(freep) char *dir = NULL;
    *out = NULL;
    int r = paths_dir(PATHS_STATE, false, &dir);
    if (r == 0) r = paths_make(dir);
    if (r == 0 && asprintf(out, "%s/%s", dir, name) < 0) r = error_say(-ENOMEM, "no memory for a path");
    return r;
}

int log_files_database(char **out)
{
    return state_file("log.db", out);
}

int log_files_lock(bool wait)
{
    _cleanup_(freep) char *path = NULL;
    int r = state_file("log.lock", &path);
    if (r < 0) return r;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return error_say(-errno, "%s: %s", path, strerror(errno));
    int64_t deadline = interrupt_now() + LOCK_WAIT_MS;
    /* A file system without locks only loses the order of a call and the next one. */
    while (flock(fd, (wait ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0 && wait && errno == EWOULDBLOCK &&
           interrupt_now() < deadline)
        if (interrupt_sleep(LOCK_POLL_MS) < 0) break;
    return fd;
}

int log_files_program(char out[static PATH_MAX + 16])
{
    if (paths_program_dir(out)) {
        strcat(out, "/hob-log");
        if (access(out, X_OK) == 0) return 0;
    }
    strcpy(out, HOB_LIBEXEC "/hob-log");
    if (access(out, X_OK) == 0) return 0;
    return error_say(-ENOENT,
                     "hob-log is not installed; hob was built without SQLite, or the installation is not whole");
}
