/* SPDX-License-Identifier: MIT */
#include "client/models/loaded.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* What this user cannot see is not there for him. */
static int not_seen(void)
{
    return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : error_origin(-errno);
}

/* The number of a process that exited may be reused by another process. */
static int is_hobd(int pid)
{
    char path[32], name[16] = "";
    _cleanup_(fclosep) FILE *f = NULL;
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    f = fopen(path, "re");
    if (!f) return not_seen();
    return fgets(name, sizeof(name), f) && strcmp(name, "hobd\n") == 0;
}

/* Read the kernel's list of locks. Testing the lock itself would hold it for a moment, and a daemon that starts at that
 * moment would fail. Only inodes are compared: on some file systems the device in the list differs from that of the
 * file. */
static int is_locked(uint64_t inode)
{
    _cleanup_(fclosep) FILE *f = fopen("/proc/locks", "re");
    char line[256];
    uint64_t found;
    int pid, r = 0;
    if (!f) return not_seen();
    while (r == 0 && fgets(line, sizeof(line), f))
        if (sscanf(line, "%*d: FLOCK %*s %*s %d %*x:%*x:%" SCNu64, &pid, &found) == 2 && found == inode)
            r = is_hobd(pid);
    return r;
}

int loaded_by(const char *name, bool system)
{
    _cleanup_(freep) char *dir = NULL, *model = NULL, *lock = NULL;
    struct stat st;
    int r = paths_model_name(name, &model);
    if (r == 0) r = paths_dir(PATHS_STATE, system, &dir);
    if (r < 0) return r == -ENOMEM ? r : 0; /* no daemon has another name, or no directory */
    if (asprintf(&lock, "%s/%s/lock", dir, model) < 0) return error_say(-ENOMEM, "no memory for a path");
    return stat(lock, &st) < 0 ? not_seen() : is_locked(st.st_ino);
}
