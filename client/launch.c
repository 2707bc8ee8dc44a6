/* SPDX-License-Identifier: MIT */
#include "client/launch.h"
#include "client/interrupt.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include "libcommon/sock.h"
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCH_POLL_MS 5
#define LAUNCH_WAIT_MS 60000 /* usually milliseconds, because hobd listens before it loads the model */
#define LAUNCH_TAIL    4096  /* bytes at the end of the log that are searched */

static bool launch_runnable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* 0: *out is DIR/hobd and runnable; 1: it is not. */
static int launch_check(const char *dir, int len, const char *below, char **out)
{
    char *path;
    if (asprintf(&path, "%.*s%shobd", len, dir, below) < 0) return error_say(-ENOMEM, "no memory for a path");
    if (launch_runnable(path)) {
        *out = path;
        return 0;
    }
    free(path);
    return 1;
}

int launch_find(const char *exe_dir, const char *path, char **out)
{
    static const char *const below[] = {"/", "/../daemon/"};
    unsigned i;
    int r;

    for (i = 0; exe_dir && i < 2; i++) {
        r = launch_check(exe_dir, (int)strlen(exe_dir), below[i], out);
        if (r <= 0) return r;
    }
    while (path && *path) {
        size_t n = strcspn(path, ":");
        /* Relative entries, including the empty one, would depend on the current directory. */
        if (*path == '/' && n < PATH_MAX) {
            r = launch_check(path, (int)n, "/", out);
            if (r <= 0) return r;
        }
        path += n + (path[n] == ':');
    }
    return error_say(-ENOENT, "hobd is neither in the directory of hob nor in PATH");
}

int launch_last_line(const char *log, char **out)
{
    _cleanup_(closep) int fd = open(log, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char tail[LAUNCH_TAIL + 1];
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) return -errno;
    off_t from = st.st_size > LAUNCH_TAIL ? st.st_size - LAUNCH_TAIL : 0;
    ssize_t n = pread(fd, tail, LAUNCH_TAIL, from);
    if (n < 0) return -errno;
    while (n > 0 && (unsigned char)tail[n - 1] <= ' ') n--;
    tail[n] = 0;
    char *line = memrchr(tail, '\n', (size_t)n);
    line = line ? line + 1 : tail;
    if (strncmp(line, "hobd: ", 6) == 0) line += 6;
    if (!*line) return -ENODATA;
    *out = strdup(line);
    return *out ? 0 : -ENOMEM;
}

/* Open the log or the lock file, and make its directory if needed. */
static int launch_open(const char *path, int flags, int *fd)
{
    _cleanup_(freep) char *dir = strndup(path, (size_t)(strrchr(path, '/') - path));
    int r = dir ? paths_make(dir) : error_say(-ENOMEM, "no memory for a path");
    struct stat st;
    if (r < 0) return r;
    /* O_NONBLOCK: opening a pipe at this path would wait for a reader. It has no effect on a regular file. */
    _cleanup_(closep) int opened = open(path, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (opened < 0 || fstat(opened, &st) < 0) {
        r = error_origin(-errno);
        return error_in(r, "%s", path);
    }
    if (!S_ISREG(st.st_mode)) return error_say(-EINVAL, "%s is not a regular file", path);
    *fd = opened;
    opened = -1;
    return 0;
}

/* Remove the variables of the service manager: they describe this process, not the daemon, which outlives it. */
static int launch_environment(char ***out)
{
    static const char *const drop[] = {
        "NOTIFY_SOCKET=",     "LISTEN_PID=",      "LISTEN_FDS=",      "LISTEN_FDNAMES=",
        "WATCHDOG_PID=",      "WATCHDOG_USEC=",   "JOURNAL_STREAM=",  "INVOCATION_ID=",
        "RUNTIME_DIRECTORY=", "STATE_DIRECTORY=", "CACHE_DIRECTORY=", "CONFIGURATION_DIRECTORY=",
        "LOGS_DIRECTORY=",    "MAINPID=",
    };
    size_t n = 0;
    while (environ[n]) n++;
    char **env = malloc((n + 1) * sizeof(*env));
    if (!env) return error_say(-ENOMEM, "no memory for the environment");
    n = 0;
    for (size_t i = 0; environ[i]; i++) {
        size_t j;
        for (j = 0; j < sizeof(drop) / sizeof(*drop); j++)
            if (strncmp(environ[i], drop[j], strlen(drop[j])) == 0) break;
        if (j == sizeof(drop) / sizeof(*drop)) env[n++] = environ[i];
    }
    env[n] = NULL;
    *out = env;
    return 0;
}

/* Start hobd in a new session, with default signals, with /dev/null as standard input and output and the log as
 * standard error. 0 or -errno. */
static int launch_exec(char **argv, int log, pid_t *pid)
{
    _cleanup_(freep) char **env = NULL;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r = launch_environment(&env);
    if (r < 0) return r;
    sigemptyset(&none);
    sigfillset(&all);
    r = posix_spawn_file_actions_init(&files);
    if (r != 0) return error_say(-r, "no memory to start hobd");
    r = posix_spawnattr_init(&attr);
    if (r == 0)
        r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (r == 0) r = posix_spawnattr_setsigmask(&attr, &none);
    if (r == 0) r = posix_spawnattr_setsigdefault(&attr, &all);
    if (r == 0) r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (r == 0) r = posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    if (r == 0) r = posix_spawn_file_actions_adddup2(&files, log, 2);
    if (r == 0) r = posix_spawn_file_actions_addclosefrom_np(&files, 3);
    /* Change to /, so that the caller's directory can be removed or unmounted. */
    if (r == 0) r = posix_spawn_file_actions_addchdir_np(&files, "/");
    if (r == 0) r = posix_spawn(pid, argv[0], &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return r != 0 ? error_say(r == ENOEXEC ? -ENOENT : -r, "cannot start %s: %s", argv[0], strerror(r)) : 0;
}

/* The argument for hobd -m: a name unchanged, a path made absolute, because hobd starts in another directory. */
static int launch_model(const char *model, char **out)
{
    _cleanup_(freep) char *file = NULL;
    int r = paths_model_file(model, false, &file);
    if (r < 0) return r;
    if (strcmp(file, model) != 0 || *model == '/') {
        *out = strdup(model);
        return *out ? 0 : error_say(-ENOMEM, "no memory for a path");
    }
    /* Only the directory is resolved: the name of a link is the model's name. */
    char *base = strrchr(file, '/');
    if (base) *base++ = 0;
    char *dir = realpath(base ? file : ".", NULL);
    if (!dir) {
        r = error_origin(-errno);
        return error_in(r, "%s", model);
    }
    r = asprintf(out, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, base ? base : file);
    free(dir);
    return r < 0 ? error_say(-ENOMEM, "no memory for a path") : 0;
}

int launch_hobd(char **hobd)
{
    char dir[PATH_MAX];
    return launch_find(paths_program_dir(dir) ? dir : NULL, getenv("PATH"), hobd);
}

int launch_tool(char **argv)
{
    _cleanup_(freep) char *hobd = NULL;
    int r = launch_hobd(&hobd);
    if (r < 0) return r;
    argv[0] = hobd;
    execv(hobd, argv);
    return error_say(-errno, "cannot run %s: %s", hobd, strerror(errno));
}

/* Connect as soon as a daemon listens. Returns like launch_daemon. */
static int launch_wait(pid_t pid, const char *socket, const char *log)
{
    int64_t deadline = interrupt_now() + LAUNCH_WAIT_MS;
    _cleanup_(freep) char *line = NULL;
    bool exited = false;
    int fd, r, status = 0;
    for (;;) {
        fd = sock_connect(socket);
        if (fd != -ENOENT && fd != -ECONNREFUSED) return fd < 0 ? error_in(fd, "cannot connect to %s", socket) : fd;
        if (exited) break;
        if (interrupt_now() > deadline)
            return error_say(-ETIMEDOUT, "hobd was started but does not listen at %s; see %s", socket, log);
        r = interrupt_sleep(LAUNCH_POLL_MS);
        if (r < 0) return r;
        /* After hobd exits, try once more: another daemon may own the socket. */
        exited = waitpid(pid, &status, WNOHANG) == pid;
    }
    r = launch_last_line(log, &line);
    /* What it would have told its clients, had they come earlier: the message is the same. */
    if (r == 0 && WIFEXITED(status) && WEXITSTATUS(status) <= 2) return error_say(-ENOEXEC, "%s", line);
    return error_say(-ECHILD, "the daemon did not start: %s", r == 0 ? line : "its log is empty");
}

/* Lock MODEL.lock beside the socket. */
static int launch_lock(const char *socket, int *fd)
{
    _cleanup_(freep) char *path = NULL;
    size_t n = strlen(socket);
    if (n > 5 && strcmp(socket + n - 5, ".sock") == 0) n -= 5;
    if (asprintf(&path, "%.*s.lock", (int)n, socket) < 0) return error_say(-ENOMEM, "no memory for a path");
    int r = launch_open(path, O_RDWR, fd);
    while (r == 0 && flock(*fd, LOCK_EX) < 0) {
        if (errno != EINTR) {
            r = error_origin(-errno);
            return error_in(r, "%s", path);
        }
        if (interrupted()) return -EINTR;
    }
    return r;
}

static int launch_log_file(const char *model, char **path, int *fd)
{
    _cleanup_(freep) char *name = NULL, *dir = NULL;
    int r = paths_model_name(model, &name);
    if (r == 0) r = paths_dir(PATHS_STATE, false, &dir);
    if (r < 0) return r;
    if (asprintf(path, "%s/%s.log", dir, name) < 0) *path = NULL;
    if (!*path) return error_say(-ENOMEM, "no memory for a path");
    return launch_open(*path, O_WRONLY | O_TRUNC | O_APPEND, fd);
}

/* Open the daemon's log. If no file can be created, use memory: the daemon works without a home directory, and the
 * client can still report its last message. */
static int launch_log(const char *model, char **path, int *fd)
{
    int r = launch_log_file(model, path, fd);
    if (r == 0) return 0;
    log_warning("cannot write the daemon's log: %s", error_text(r));
    free(steal(*path));
    *fd = memfd_create("hobd.log", MFD_CLOEXEC);
    if (*fd < 0) return error_say(-errno, "no memory for the daemon's log: %s", strerror(errno));
    if (asprintf(path, "/proc/self/fd/%d", *fd) >= 0) return 0;
    *path = NULL;
    return error_say(-ENOMEM, "no memory for a path");
}

int launch_daemon(const char *model, const char *socket)
{
    _cleanup_(freep) char *hobd = NULL, *arg = NULL, *log_path = NULL;
    _cleanup_(closep) int lock = -1, log = -1;
    pid_t pid;
    int r = launch_model(model, &arg);
    if (r == 0) r = launch_hobd(&hobd);
    if (r == 0) r = launch_lock(socket, &lock);
    if (r < 0) return r;
    r = sock_connect(socket);
    if (r >= 0) return r;
    r = launch_log(model, &log_path, &log);
    if (r < 0) return r;
    r = launch_exec((char *[]){hobd, "serve", "-m", arg, "--socket", (char *)socket, NULL}, log, &pid);
    return r < 0 ? r : launch_wait(pid, socket, log_path);
}
