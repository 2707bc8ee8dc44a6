/* SPDX-License-Identifier: MIT */
#include "daemon/media/media-spawn.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

static int place(posix_spawn_file_actions_t *files, int fd, int at)
{
    if (fd < 0)
        return posix_spawn_file_actions_addopen(files, at, "/dev/null", at == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
    return posix_spawn_file_actions_adddup2(files, fd, at);
}

int media_spawn(pid_t *pid, const struct media_program *p)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int r = posix_spawn_file_actions_init(&files);
    if (r) return -r;
    r = posix_spawnattr_init(&attr);
    if (r) {
        posix_spawn_file_actions_destroy(&files);
        return -r;
    }
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all); /* an ignored SIGCHLD would hide how a decoder ended */
    posix_spawnattr_setflags(
        &attr, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (p->own_group ? POSIX_SPAWN_SETPGROUP : 0)));
    r = place(&files, p->in, STDIN_FILENO);
    if (!r) r = place(&files, p->out, STDOUT_FILENO);
    if (!r) r = place(&files, p->error, STDERR_FILENO);
    if (!r) r = posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    if (!r) r = posix_spawn(pid, p->path ? p->path : p->argv[0], &files, &attr, p->argv, p->env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return -r;
}
