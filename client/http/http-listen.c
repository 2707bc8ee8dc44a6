/* SPDX-License-Identifier: MIT */
#include "client/http/http-listen.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

enum { BACKLOG = 1024 };

static bool is_local(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *four = (const void *)a;
    const struct sockaddr_in6 *six = (const void *)a;
    if (a->ss_family == AF_INET) return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    if (a->ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    return a->ss_family == AF_UNIX;
}

/* Is @fd a socket of NETLINK_SOCK_DIAG (ListenNetlink=inet-diag)? */
static bool is_diag(int fd)
{
    int domain = 0, protocol = 0;
    socklen_t n = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0 || domain != AF_NETLINK) return false;
    return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &n) == 0 && protocol == NETLINK_SOCK_DIAG;
}

/* Take the listening socket @fd. Closes it on failure. */
static int take(struct listeners *l, int fd, bool keys)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof(a);
    char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
    int flags = fcntl(fd, F_GETFL), r = 0;
    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0 || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        r = error_say(-errno, "a listening socket: %s", strerror(errno));
    else if (l->n == LISTENERS_MAX)
        r = error_say(-EINVAL, "more than %d listening sockets", LISTENERS_MAX);
    if (r == 0 && a.ss_family != AF_UNIX)
        getnameinfo((struct sockaddr *)&a, n, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    if (r == 0 && !keys && !is_local(&a))
        r = error_say(-EACCES,
                      "%s can be reached from other machines: this needs a keys file (hob-http key add NAME, --keys)",
                      host);
    if (r < 0) {
        close(fd);
        return r;
    }
    l->fds[l->n++] = fd;
    if (a.ss_family == AF_UNIX)
        log_info("listening on a Unix socket");
    else
        log_info(a.ss_family == AF_INET6 ? "listening on http://[%s]:%s" : "listening on http://%s:%s", host, port);
    return 0;
}

static int bind_and_listen(int fd, const struct addrinfo *a)
{
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    return bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0 ? -errno : 0;
}

static void freeaddrinfop(struct addrinfo **a)
{
    if (*a) freeaddrinfo(*a);
}

int listen_address(const char *text, struct addrinfo **out)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(text, ':');
    char host[64];
    uint64_t port;
    size_t n = colon ? (size_t)(colon - text) : 0;
    bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';
    snprintf(host, sizeof(host), "%.*s", (int)(n - 2 * brackets), text + brackets);
    if (n == 0 || n >= sizeof(host) || (!brackets && strchr(host, ':')) || parse_u64(colon + 1, 0, 65535, &port) < 0 ||
        getaddrinfo(host, colon + 1, &hints, out) != 0)
        return error_say(-EINVAL, "--listen: '%s' is not ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:8080", text);
    return 0;
}

static int open_one(struct listeners *l, const char *text, bool keys)
{
    _cleanup_(freeaddrinfop) struct addrinfo *a = NULL;
    int r = listen_address(text, &a);
    if (r < 0) return r;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return error_say(-errno, "cannot listen at %s: %s", text, strerror(errno));
    r = bind_and_listen(fd, a);
    if (r == 0) return take(l, fd, keys);
    close(fd);
    return error_say(r, "cannot listen at %s: %s", text, strerror(-r));
}

int listeners_open(struct listeners *l, const struct http_options *o, bool keys)
{
    int n = sd_listen_fds(1), r = 0;
    *l = (struct listeners){.diag = -1};
    if (n < 0) return error_say(n, "LISTEN_FDS: %s", strerror(-n));
    for (int fd = SD_LISTEN_FDS_START; r == 0 && fd < SD_LISTEN_FDS_START + n; fd++) {
        if (l->diag < 0 && is_diag(fd))
            l->diag = fd;
        else
            r = take(l, fd, keys);
    }
    if (l->n > 0 || r < 0) return r;
    for (size_t i = 0; r == 0 && i < o->n_listen; i++) r = open_one(l, o->listen[i], keys);
    if (o->n_listen > 0 || r < 0) return r;
    r = open_one(l, "127.0.0.1:8080", keys);
    if (r < 0) return r;
    r = open_one(l, "[::1]:8080", keys);
    return r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL ? 0 : r; /* a machine without IPv6 */
}

void listeners_fini(struct listeners *l)
{
    for (unsigned i = 0; i < l->n; i++) close(l->fds[i]);
    if (l->diag >= 0) close(l->diag);
    *l = (struct listeners){.diag = -1};
}
