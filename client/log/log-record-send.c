/* SPDX-License-Identifier: MIT */
/* Starts hob-log with an exchange. */
#include "client/log/log-files.h"
#include "client/log/log-record.h"
#include "client/options.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file in memory, at its beginning: the writer may read it after hob has exited, and no pipe fills up. */
static int file_of(const char *line, size_t len)
{
    int fd = memfd_create("exchange", MFD_CLOEXEC);
    if (fd < 0) return error_say(-errno, "no file in memory: %s", strerror(errno));
    for (size_t at = 0; at < len;) {
        ssize_t n = write(fd, line + at, len - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            int r = error_say(-errno, "no memory for the exchange: %s", strerror(errno));
            close(fd);
            return r;
        }
        at += (size_t)n;
    }
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* In a session of its own, so that Ctrl-C and the end of the terminal do not end it. It keeps standard error for
 * warnings, and @lock as descriptor 3. */
static int start(char *const argv[], int input, int lock, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0) return error_say(-r, "no memory to start hob-log");
    r = posix_spawnattr_init(&attr);
    if (r == 0)
        r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (r == 0) r = posix_spawnattr_setsigmask(&attr, &none);
    if (r == 0) r = posix_spawnattr_setsigdefault(&attr, &all);
    if (r == 0) r = posix_spawn_file_actions_adddup2(&files, input, 0);
    if (r == 0) r = posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    if (r == 0 && lock >= 0) r = posix_spawn_file_actions_adddup2(&files, lock, 3);
    if (r == 0) r = posix_spawn_file_actions_addclosefrom_np(&files, lock >= 0 ? 4 : 3);
    if (r == 0) r = posix_spawn(pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return r != 0 ? error_say(-r, "cannot start %s: %s", argv[0], strerror(r)) : 0;
}

int record_send(const char *line, size_t len, const struct options *o, pid_t *pid)
{
    char program[PATH_MAX + 16], size[24], age[24];
    int r = log_files_program(program);
    if (r < 0) return r;
    _cleanup_(closep) int lock = log_files_lock(false);
    if (lock < 0) return lock;
    _cleanup_(closep) int input = file_of(line, len);
    if (input < 0) return input;
    snprintf(size, sizeof(size), "%" PRId64, o->log.size);
    snprintf(age, sizeof(age), "%" PRId64, o->log.age_ms);
    return start((char *[]){program, (char *)"log", (char *)"write", size, age, NULL}, input, lock, pid);
}
