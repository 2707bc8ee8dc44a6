/* SPDX-License-Identifier: MIT */
#include "libcommon/sock.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

static int address(const char *path, struct sockaddr_un *a)
{
    size_t n = strlen(path);
    if (!n) return error_say(-EINVAL, "the socket's path is empty");
    if (n >= sizeof(a->sun_path))
        return error_say(-ENAMETOOLONG, "socket path %s has %zu bytes, the limit is %zu", path, n,
                         sizeof(a->sun_path) - 1);
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(a->sun_path, path, n + 1);
    return 0;
}

int sock_connect(const char *path)
{
    struct sockaddr_un a;
    int r = address(path, &a);
    if (r < 0) return r;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return error_origin(-errno);
    /* On a Unix socket an interrupted connect has not begun, so it can be called again. */
    do r = connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
    while (r == -EINTR);
    if (r < 0) {
        close(fd);
        return error_origin(r);
    }
    return fd;
}

/* No other process may change the socket between the check of an old socket and listen() on the new one: a bound socket
 * that does not listen yet looks dead. Daemons exclude each other by a lock on the directory. Any process that can read
 * the directory could hold that lock, so wait for it at most a second. */
static int lock_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    _cleanup_(freep) char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    const struct timespec pause = {0, 10000000};
    if (!dir) return -ENOMEM;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return error_say(-errno, "%s: %s", dir, strerror(errno));
    for (int i = 0; i < 100 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK; i++) nanosleep(&pause, NULL);
    return fd;
}

/*
 * 1: a process listens at @a; 0: no process does, the socket is dead; negative; sets the error message. A dying process
 * may close its connections before its listener, so connect() can still succeed for a moment. Such a connection ends at
 * once; a connection to a living daemon does not.
 */
static int is_live(const struct sockaddr_un *a)
{
    for (int i = 0; i < 20; i++) {
        _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct pollfd p = {.fd = fd, .events = POLLRDHUP};
        if (fd < 0) return error_origin(-errno);
        if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0) return errno != ECONNREFUSED && errno != ENOENT;
        if (poll(&p, 1, 100) <= 0) return 1;
    }
    return 1;
}

/* Remove a stale socket at @a. 0: no file exists at @a (any more). */
static int remove_stale(const struct sockaddr_un *a)
{
    struct stat st;
    if (lstat(a->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : error_say(-errno, "%s: %s", a->sun_path, strerror(errno));
    /* Connecting to a regular file is refused just like connecting to a dead socket. */
    if (!S_ISSOCK(st.st_mode)) return error_say(-EEXIST, "%s exists and is not a socket", a->sun_path);
    int r = is_live(a);
    if (r < 0) return r;
    if (r > 0) return error_say(-EADDRINUSE, "another process already listens at %s", a->sun_path);
    if (unlink(a->sun_path) < 0 && errno != ENOENT)
        return error_say(-errno, "cannot remove the old socket %s: %s", a->sun_path, strerror(errno));
    return 0;
}

/*
 * Bind with exactly @mode: never wider for a moment, and without umask(), which is shared by all threads. Linux gives
 * the new file the mode of the descriptor less the umask; the chmod adds the bits that the umask removed; and until
 * listen() no process can connect.
 */
static int bind_and_listen(int fd, const struct sockaddr_un *a, mode_t mode, int backlog)
{
    if (fchmod(fd, mode) < 0) return error_origin(-errno);
    if (bind(fd, (const struct sockaddr *)a, sizeof(*a)) < 0)
        return error_say(-errno, "cannot make the socket %s: %s", a->sun_path, strerror(errno));
    if (chmod(a->sun_path, mode) == 0 && listen(fd, backlog) == 0) return 0;
    int r = error_say(-errno, "cannot listen at %s: %s", a->sun_path, strerror(errno));
    unlink(a->sun_path);
    return r;
}

int sock_listen(const char *path, mode_t mode, int backlog)
{
    _cleanup_(closep) int lock = -1, fd = -1;
    struct sockaddr_un a;
    int r = address(path, &a);
    if (r < 0) return r;
    lock = lock_directory(path);
    if (lock < 0) return lock;
    r = remove_stale(&a);
    if (r < 0) return r;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return error_say(-errno, "socket: %s", strerror(errno));
    r = bind_and_listen(fd, &a, mode, backlog);
    if (r < 0) return r;
    int out = fd;
    fd = -1;
    return out;
}

int sock_peer(int fd, uid_t *uid, pid_t *pid)
{
    struct ucred c;
    socklen_t n = sizeof(c);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) < 0) return error_origin(-errno);
    if (n != sizeof(c)) return error_say(-EIO, "SO_PEERCRED gave %u bytes", (unsigned)n);
    *uid = c.uid;
    *pid = c.pid;
    return 0;
}
