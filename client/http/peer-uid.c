/* SPDX-License-Identifier: MIT */
#include "client/http/peer-uid.h"
#include "libcommon/log.h"
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/stat.h>

enum {
    NOBODY = 65534,  /* the kernel shows it for a uid that its reader's user namespace does not have */
    STALE_MOST = 64, /* replies to earlier questions */
};

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 body;
};

/* Copy address and port of @a. 0; -EAFNOSUPPORT. */
static int copy_address(const struct sockaddr *a, __be32 to[static 4], __be16 *port)
{
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)a;
        memcpy(to, &four->sin_addr, sizeof(four->sin_addr));
        *port = four->sin_port;
        return 0;
    }
    if (a->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)a;
        memcpy(to, &six->sin6_addr, sizeof(six->sin6_addr));
        *port = six->sin6_port;
        return 0;
    }
    return -EAFNOSUPPORT;
}

/* The reply to the question p->seq. The kernel has queued it before send() returned. */
static int receive(struct peer_uids *p, struct inet_diag_msg *out)
{
    for (unsigned i = 0; i < STALE_MOST; i++) {
        union {
            struct nlmsghdr header;
            char bytes[4096];
        } reply;
        struct sockaddr_nl from = {0};
        socklen_t from_len = sizeof(from);
        ssize_t n = recvfrom(p->fd, &reply, sizeof(reply), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
        if (n < 0 && errno == ENOBUFS) continue; /* a lost reply */
        if (n < 0) return -errno;
        if (from.nl_pid != 0 || !NLMSG_OK(&reply.header, (unsigned)n) || reply.header.nlmsg_seq != p->seq) continue;
        if (reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY || NLMSG_PAYLOAD(&reply.header, 0) < sizeof(*out))
            return -ESRCH;
        memcpy(out, NLMSG_DATA(&reply.header), sizeof(*out));
        return 0;
    }
    return -ESRCH;
}

/* Find the TCP socket at @own that is connected to @other. Without such a socket, it is one that listens at @own. */
static int ask(struct peer_uids *p, const struct sockaddr *own, const struct sockaddr *other, struct inet_diag_msg *out)
{
    struct question q = {.header = {.nlmsg_len = sizeof(q),
                                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                    .nlmsg_flags = NLM_F_REQUEST,
                                    .nlmsg_seq = ++p->seq},
                         .body = {.sdiag_family = (__u8)own->sa_family,
                                  .sdiag_protocol = IPPROTO_TCP,
                                  .idiag_states = UINT32_MAX,
                                  .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}};
    struct inet_diag_sockid *id = &q.body.id;
    if (own->sa_family != other->sa_family) return -ESRCH;
    int r = copy_address(own, id->idiag_src, &id->idiag_sport);
    if (r == 0) r = copy_address(other, id->idiag_dst, &id->idiag_dport);
    if (r < 0) return r;
    if (send(p->fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return -errno;
    r = receive(p, out);
    if (r == 0 && out->id.idiag_sport != id->idiag_sport) return -ESRCH;
    return r;
}

/* Does the netlink socket see the listening socket @fd itself? Unix sockets need no netlink. */
static int try(struct peer_uids *p, int fd)
{
    struct sockaddr_storage a = {0};
    struct inet_diag_msg found;
    struct stat st;
    socklen_t n = sizeof(a);
    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0 || fstat(fd, &st) < 0) return -errno;
    if (a.ss_family == AF_UNIX) return 0;
    int r = ask(p, (struct sockaddr *)&a, (struct sockaddr *)&a, &found);
    return r == 0 && found.idiag_inode != (__u32)st.st_ino ? -ESRCH : r;
}

void peer_uids_init(struct peer_uids *p, struct listeners *l)
{
    int r = 0;
    if (l->diag < 0) l->diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (l->diag < 0) r = -errno;
    *p = (struct peer_uids){.fd = l->diag};
    for (unsigned i = 0; r == 0 && i < l->n; i++) r = try(p, l->fds[i]);
    if (r == 0) return;
    log_warning("connections over TCP need keys, because their users are not known: %s",
                r == -ESRCH || r == -ENOENT ? "the kernel does not show the owners of these sockets" : strerror(-r));
    p->fd = -1;
}

static int find_unix(int fd, uid_t *uid)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0) return -ESRCH;
    *uid = peer.uid;
    return 0;
}

static int find_tcp(struct peer_uids *p, int fd, const struct sockaddr *address, uid_t *uid)
{
    struct sockaddr_storage own = {0};
    struct inet_diag_msg found;
    struct tcp_info info = {0};
    socklen_t own_len = sizeof(own), info_len = sizeof(info);
    if (getsockname(fd, (struct sockaddr *)&own, &own_len) < 0) return -ESRCH;
    if (ask(p, address, (struct sockaddr *)&own, &found) < 0) return -ESRCH;
    if (found.idiag_state != TCP_ESTABLISHED || found.idiag_inode == 0) return -ESRCH;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_len) < 0 || info.tcpi_state != TCP_ESTABLISHED)
        return -ESRCH;
    *uid = found.idiag_uid;
    return 0;
}

int peer_uids_find(struct peer_uids *p, int fd, const struct sockaddr *address, uid_t *uid)
{
    int domain = 0;
    socklen_t n = sizeof(domain);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0) return -ESRCH;
    if (domain != AF_UNIX && p->fd < 0) return 1;
    int r = domain == AF_UNIX ? find_unix(fd, uid) : find_tcp(p, fd, address, uid);
    if (r == 0 && (*uid == NOBODY || *uid == (uid_t)-1)) r = -ESRCH;
    return r;
}
