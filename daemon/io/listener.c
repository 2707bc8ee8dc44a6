/* SPDX-License-Identifier: MIT */
#include "daemon/io/listener.h"
#include "daemon/io/close-apart.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/proto.h"
#include "libcommon/sock.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { BACKLOG = 4096 }; /* as systemd; the kernel cuts it to net.core.somaxconn */

static char *path_of(int fd)
{
    struct sockaddr_un a = {0};
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0 || n <= offsetof(struct sockaddr_un, sun_path) || !a.sun_path[0])
        return strdup("(inherited)");
    return strndup(a.sun_path, n - offsetof(struct sockaddr_un, sun_path));
}

int listener_inherit(struct listener *l)
{
    int n = sd_listen_fds(1);
    int fd = SD_LISTEN_FDS_START;
    *l = (struct listener)LISTENER_INIT;
    if (n < 0) return error_say(n, "LISTEN_FDS: %s", strerror(-n));
    if (n == 0) return 1;
    if (n > 1) return error_say(-EINVAL, "the service manager passed %d sockets; hobd serves only one", n);
    int r = sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1);
    if (r < 0) return error_say(r, "the socket from the service manager: %s", strerror(-r));
    if (r == 0)
        return error_say(-EINVAL,
                         "the service manager passed no listening Unix stream socket with a path (ListenStream=/…)");
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return error_origin(-errno);
    l->path = path_of(fd);
    if (!l->path) return error_origin(-ENOMEM);
    l->fd = fd;
    l->inherited = true;
    return 0;
}

int listener_make(struct listener *l, const char *path, mode_t mode)
{
    *l = (struct listener)LISTENER_INIT;
    int fd = sock_listen(path, mode, BACKLOG);
    if (fd < 0) return fd;
    l->path = strdup(path);
    struct stat st;
    if (!l->path || lstat(path, &st) < 0) {
        int r = l->path ? -errno : -ENOMEM;
        close(fd);
        unlink(path);
        free(l->path);
        l->path = NULL;
        return error_origin(r);
    }
    l->fd = fd;
    l->linked = true;
    l->dev = st.st_dev;
    l->inode = st.st_ino;
    return 0;
}

void listener_retire(struct listener *l)
{
    if (!l->linked) return;
    l->linked = false;
    struct stat st;
    if (lstat(l->path, &st) < 0 || st.st_dev != l->dev || st.st_ino != l->inode) return; /* another daemon's */
    if (unlink(l->path) < 0) log_warning("%s: %s", l->path, strerror(errno));
}

/* The peer may have sent descriptors, of which close(2) may wait. */
static void close_refused(int fd)
{
    uid_t uid = 0;
    pid_t pid;
    if (sock_peer(fd, &uid, &pid) < 0) log_debug("the uid of a refused client is not known");
    close_apart_socket(fd, uid);
}

void listener_turn_away(int fd, int r)
{
    const char *why = error_text(r);
    struct proto_event e = {.type = PROTO_EV_ERROR, .code = -r, .message = {(char *)why, strlen(why)}};
    struct buf b = BUF_INIT;
    /* A fresh socket always has room for it. */
    log_debug("a connection was refused: %s", why);
    if (proto_write_event(&b, &e) == 0 && send(fd, b.data, b.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_debug("cannot send the reason to the refused client: %s", strerror(errno));
    buf_fini(&b);
    close_refused(fd);
}

void listener_turn_away_often(int fd)
{
    static const char why[] = "this user makes too many new connections; keep them open, or try again in a second";
    static struct buf b; /* for good */
    const struct proto_event e = {
        .type = PROTO_EV_ERROR, .code = EBUSY, .message = {(char *)(uintptr_t)why, sizeof why - 1}};
    if (!b.len && proto_write_event(&b, &e) < 0) buf_clear(&b);
    if (b.len) (void)!send(fd, b.data, b.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    close_refused(fd);
}

void listener_turn_all_away(struct listener *l, int r)
{
    int fd;
    while ((fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) listener_turn_away(fd, r);
}

void listener_fini(struct listener *l)
{
    listener_retire(l);
    /* Connections that were not accepted may have descriptors. Of an inherited socket the service manager has another
     * reference. */
    if (l->fd >= 0 && l->inherited) close(l->fd);
    if (l->fd >= 0 && !l->inherited) close_apart_socket(l->fd, geteuid());
    free(l->path);
    *l = (struct listener)LISTENER_INIT;
}
