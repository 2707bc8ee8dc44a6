/* SPDX-License-Identifier: MIT */
#include "client/models/loaded.h"
#include "libcommon/cleanup.h"
#include "libcommon/paths.h"
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* The number of a process that exited may be reused by another process. */
static bool is_hobd(int pid)
{
    char path[32], name[16] = "";
    _cleanup_(fclosep) FILE *f = NULL;
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    f = fopen(path, "re");
    return f && fgets(name, sizeof(name), f) && strcmp(name, "hobd\n") == 0;
}

/* Read the kernel's list of locks. Testing the lock itself would hold it for a moment, and a daemon that starts at that
 * moment would fail. Only inodes are compared: on some file systems the device in the list differs from that of the
 * file. */
static bool is_locked(uint64_t inode)
{
    _cleanup_(fclosep) FILE *f = fopen("/proc/locks", "re");
    char line[256];
    uint64_t found;
    int pid;
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "%*d: FLOCK %*s %*s %d %*x:%*x:%" SCNu64, &pid, &found) == 2 && found == inode && is_hobd(pid))
            return true;
    return false;
}

bool loaded_by(const char *name, bool system)
{
    _cleanup_(freep) char *dir = NULL, *model = NULL, *lock = NULL;
    struct stat st;
    if (paths_model_name(name, &model) < 0 || paths_dir(PATHS_STATE, system, &dir) < 0) return false;
    if (asprintf(&lock, "%s/%s/lock", dir, model) < 0) return false;
    return stat(lock, &st) == 0 && is_locked(st.st_ino);
}
