/* SPDX-License-Identifier: MIT */
#include "client/editor.h"
#include "client/input.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Start the editor on the terminal, with the signals of a fresh program. */
static int start_editor(pid_t *pid, int tty, const char *path)
{
    char *argv[] = {(char *)"sh",  (char *)"-c", (char *)"exec ${VISUAL:-${EDITOR:-vi}} \"$1\"",
                    (char *)"hob", (char *)path, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, reset;
    sigemptyset(&none);
    sigemptyset(&reset);
    sigaddset(&reset, SIGINT);
    sigaddset(&reset, SIGQUIT);
    sigaddset(&reset, SIGPIPE);
    int r = posix_spawn_file_actions_init(&actions);
    if (r != 0) return error_origin(-r);
    r = posix_spawnattr_init(&attr);
    for (int i = 0; r == 0 && i < 3; i++) r = posix_spawn_file_actions_adddup2(&actions, tty, i);
    if (r == 0) {
        posix_spawnattr_setsigmask(&attr, &none);
        posix_spawnattr_setsigdefault(&attr, &reset);
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        r = posix_spawn(pid, "/bin/sh", &actions, &attr, argv, environ);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return r ? error_origin(-r) : 0;
}

/* As system(3): the keys that interrupt are the editor's. */
int editor_file(int tty, const char *path)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    pid_t pid;
    int status = 0;
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    int r = start_editor(&pid, tty, path);
    if (r == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    if (r == 0 && status) r = error_say(-ECHILD, "the editor failed; what it had is not used");
    return r;
}

static int write_file(int fd, const struct buf *text)
{
    FILE *f = fdopen(fd, "w");
    int r = 0;
    if (!f) {
        r = error_origin(-errno);
        close(fd);
        return r;
    }
    if (fwrite(text->data, 1, text->len, f) != text->len || fputc('\n', f) == EOF) r = error_origin(-errno);
    if (fclose(f) != 0 && r == 0) r = error_origin(-errno);
    return r;
}

int editor_text(int tty, struct buf *text, const char *suffix)
{
    const char *dir = getenv("TMPDIR");
    struct buf edited = BUF_INIT;
    char *path;
    if (asprintf(&path, "%s/hob-XXXXXX%s", dir && *dir ? dir : "/tmp", suffix) < 0)
        return error_say(-ENOMEM, "no memory for a path");
    int fd = mkostemps(path, (int)strlen(suffix), O_CLOEXEC), r;
    if (fd < 0) {
        r = error_origin(-errno);
        r = error_in(r, "%s", path);
        free(path);
        return r;
    }
    r = write_file(fd, text);
    if (r == 0) r = editor_file(tty, path);
    if (r == 0) r = input_whole(&edited, path, -1);
    unlink(path);
    if (r == 0) {
        buf_fini(text);
        *text = edited;
        edited = (struct buf)BUF_INIT;
    }
    buf_fini(&edited);
    free(path);
    return r;
}
