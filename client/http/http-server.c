/* SPDX-License-Identifier: MIT */
#include "client/http/http-server.h"
#include "client/http/exchange.h"
#include "client/http/http-check.h"
#include "client/http/http-routes.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>

enum {
    POOL = 16 << 10, /* memory of libmicrohttpd for a connection; a header of about half of it fits */
    TICK_USEC = 1000000,
    TURNS = 64, /* of libmicrohttpd before other events */
};

#define UID_MOST 59999 /* then come uids of homes, of services for a short time, and of user namespaces */

/* A connection. */
struct peer {
    struct gateway *gateway;
    struct peer *next, **link; /* in gateway.peers */
    struct MHD_Connection *connection;
    int fd;              /* owned by libmicrohttpd */
    bool expired;        /* its request did not arrive in time */
    bool busy;           /* its request is complete and not answered yet */
    int owner;           /* result of peer_uids_find */
    uid_t uid;           /* if @owner is 0: of the client */
    uint64_t since_usec; /* start of the connection, or end of its last response */
};

static void on_connection(void *ctx, struct MHD_Connection *c, void **slot, enum MHD_ConnectionNotificationCode code)
{
    struct gateway *g = ctx;
    struct peer *p = *slot;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        p = calloc(1, sizeof(*p));
        if (!p) return; /* on_request closes the connection */
        *p = (struct peer){.gateway = g,
                           .connection = c,
                           .owner = 1,
                           .next = g->peers,
                           .link = &g->peers,
                           .since_usec = clock_now_usec()};
        p->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        if (g->keys.n == 0) {
            const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
            p->owner = peer_uids_find(&g->peer_uids, p->fd, info->client_addr, &p->uid);
        }
        if (p->next) p->next->link = &p->next;
        g->peers = p;
        g->n_peers++;
        *slot = p;
    } else if (p) {
        *p->link = p->next;
        if (p->next) p->next->link = p->link;
        g->n_peers--;
        free(p);
        *slot = NULL;
    }
}

static struct peer *peer_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Without keys, the user is the client's uid. One whose uid is not known could be anybody. One with many uids, from a
 * user namespace, would have as many shares, so those beyond people's and services' own need keys. */
static int set_user(struct exchange *x, const struct peer *p, struct fault *f)
{
    const unsigned long uid = p->uid;
    if (p->owner > 0)
        return fault_set(f, 403, NULL,
                         "the kernel does not show the users of connections: use a key (hob-http key add)");
    if (p->owner < 0)
        return fault_set(f, 403, NULL, "the user at the other end of this connection is not known: use a key");
    if (p->uid == geteuid()) return 0;
    if (p->uid > UID_MOST) return fault_set(f, 403, NULL, "uid %lu is above %d: use a key", uid, UID_MOST);
    snprintf(x->user, sizeof(x->user), KEY_UID "%lu", uid);
    return 0;
}

/* The header of a request is complete. If the request is refused, its body is read and dropped first, unless the client
 * waits for a response with the body. */
static enum MHD_Result begin(struct gateway *g, const struct peer *p, struct MHD_Connection *c, const char *url,
                             const char *method, const char *version, struct exchange **out)
{
    struct fault fault = {0};
    struct key *key = NULL;
    const struct http_route *route = routes_find(url, method, &fault);
    bool waits = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT) != NULL;
    int r = check_framing(c, method, version, &fault);
    if (r == 0) r = check_header(g, c, route, &key, &fault);
    struct exchange *x = exchange_new(g, c, route);
    if (!x) return MHD_NO;
    *out = x;
    x->key = key_hold(key);
    if (route && routes_name(route, url, &x->name) < 0) return MHD_NO;
    if (r == 0 && g->keys.n == 0 && !route->open) r = set_user(x, p, &fault);
    x->fault = fault;
    if (r == 0 && !fault.status && key && strcmp(method, "POST") == 0) {
        r = key_limits_begin(&key->limits, &key->use, x->begun_usec, &x->fault);
        x->counted = r == 0;
    }
    log_debug("%s %s", method, url);
    return x->fault.close || (x->fault.status && waits) ? exchange_refuse(x) : MHD_YES;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n, void **slot)
{
    struct peer *p = peer_of(c);
    struct exchange *x = *slot;
    enum MHD_Result r;
    if (!p) return MHD_NO;
    if (!x) {
        r = begin(ctx, p, c, url, method, version, &x);
        *slot = x;
        return r;
    }
    if (*n > 0) {
        /* After an error the rest of the body is dropped, up to a time limit (see on_tick). */
        exchange_upload(x, data, *n);
        p->gateway->received += *n;
        *n = 0;
        return MHD_YES;
    }
    p->busy = true;
    return exchange_respond(x);
}

static void on_completed(void *ctx, struct MHD_Connection *c, void **slot, enum MHD_RequestTerminationCode code)
{
    struct peer *p = peer_of(c);
    struct exchange *x = *slot;
    if (x) exchange_free(x);
    *slot = NULL;
    if (!p) return;
    p->busy = false;
    p->since_usec = clock_now_usec();
}

static int on_http(sd_event_source *source, int fd, uint32_t revents, void *ctx)
{
    struct gateway *g = ctx;
    MHD_run(g->http);
    return 0;
}

/* Before the loop sleeps: libmicrohttpd may have work that no descriptor announces. It says so also of a body that it
 * cannot parse for lack of memory. */
static int on_prepare(sd_event_source *source, void *ctx)
{
    struct gateway *g = ctx;
    uint64_t received = g->received;
    MHD_UNSIGNED_LONG_LONG ms;
    for (unsigned i = 0; i < TURNS; i++) {
        if (!g->resumed && (MHD_get_timeout(g->http, &ms) != MHD_YES || ms > 0)) return 0;
        g->resumed = false;
        MHD_run(g->http);
    }
    return g->received > received ? sd_event_source_set_enabled(g->more, SD_EVENT_ONESHOT) : 0;
}

/* The loop did not sleep; on_prepare does the work. */
static int on_more(sd_event_source *source, void *ctx)
{
    return 0;
}

static void refuse(int fd)
{
    static const char text[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        "Content-Length: 78\r\nConnection: close\r\n\r\n"
        "{\"error\":{\"message\":\"too many connections\",\"type\":\"server_error\",\"code\":\"busy\"}}";
    (void)!send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static int on_accept(sd_event_source *source, int listener, uint32_t revents, void *ctx)
{
    struct gateway *g = ctx;
    for (unsigned i = 0; i < 64; i++) {
        struct sockaddr_storage a;
        socklen_t len = sizeof(a);
        int on = 1, fd = accept4(listener, (struct sockaddr *)&a, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return 0;
        if (g->n_peers >= g->options->max_connections) {
            refuse(fd);
            continue;
        }
        if (a.ss_family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        /* It closes the socket if it fails. */
        if (MHD_add_connection(g->http, fd, (struct sockaddr *)&a, len) != MHD_YES)
            log_debug("a connection was refused: %s", strerror(errno));
    }
    return 0;
}

/* libmicrohttpd closes the connection when it reads its end; if it does not read, a second later. */
static void expire(struct peer *p)
{
    p->expired = true;
    shutdown(p->fd, SHUT_RDWR);
    MHD_set_connection_option(p->connection, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *ctx)
{
    struct gateway *g = ctx;
    uint64_t now = clock_now_usec();
    for (struct peer *p = g->peers; p; p = p->next)
        if (!p->busy && !p->expired && now - p->since_usec > g->options->request_timeout_usec) expire(p);
    for (struct exchange *x = g->exchanges, *next; x; x = next) {
        next = x->next;
        exchange_tick(x, now);
    }
    sd_event_source_set_time_relative(source, TICK_USEC);
    return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* A path with an encoded NUL stays as it is, since a string would end there. */
static size_t unescape(void *ctx, struct MHD_Connection *c, char *text)
{
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

static void on_log(void *ctx, const char *fmt, va_list ap)
{
    char line[512];
    vsnprintf(line, sizeof(line), fmt, ap);
    line[strcspn(line, "\n")] = 0;
    log_debug("libmicrohttpd: %s", line);
}

static int start(struct gateway *g)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
    g->http = MHD_start_daemon(flags, 0, NULL, NULL, on_request, g, MHD_OPTION_EXTERNAL_LOGGER, on_log, g,
                               MHD_OPTION_CONNECTION_LIMIT, (unsigned)g->options->max_connections + 8,
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                               MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
                               g, MHD_OPTION_NOTIFY_CONNECTION, on_connection, g, MHD_OPTION_END);
    return g->http ? 0 : error_say(-EIO, "libmicrohttpd cannot start");
}

int http_server_init(struct gateway *g, const struct listeners *l)
{
    sd_event_source *source = NULL;
    int r = start(g);
    if (r < 0) return r;
    int epoll = MHD_get_daemon_info(g->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    r = sd_event_add_io(g->event, &source, epoll, EPOLLIN, on_http, g);
    if (r >= 0) r = sd_event_source_set_prepare(source, on_prepare);
    if (r >= 0) r = sd_event_source_set_floating(source, true);
    sd_event_source_unref(source);
    if (r >= 0) r = sd_event_add_defer(g->event, &g->more, on_more, g);
    if (r >= 0) r = sd_event_source_set_enabled(g->more, SD_EVENT_OFF);
    for (unsigned i = 0; r >= 0 && i < l->n; i++) r = sd_event_add_io(g->event, NULL, l->fds[i], EPOLLIN, on_accept, g);
    if (r >= 0) r = sd_event_add_time_relative(g->event, NULL, CLOCK_MONOTONIC, TICK_USEC, 0, on_tick, g);
    return r < 0 ? error_say(r, "cannot add to the event loop: %s", strerror(-r)) : 0;
}

void http_server_fini(struct gateway *g)
{
    if (!g->http) return;
    g->more = sd_event_source_disable_unref(g->more);
    /* A suspended connection cannot be closed. */
    for (struct exchange *x = g->exchanges; x; x = x->next) {
        x->disconnected = true;
        if (x->suspended) MHD_resume_connection(x->connection);
        x->suspended = false;
    }
    MHD_run(g->http);
    MHD_stop_daemon(g->http);
    g->http = NULL;
}
