/* SPDX-License-Identifier: MIT */
#include "daemon/io/service.h"
#include "daemon/io/conn.h"
#include "daemon/io/listener.h"
#include "daemon/io/priority.h"
#include "daemon/io/service-state.h"
#include "daemon/io/service-status.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/sock.h"
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS = 1024,
    PER_UID = 256,
    EVENTS_PER_WAKE = 1024, /* then the sockets get their turn */
    DRAIN_BYTES = 1 << 20,  /* of one connection's input, when the daemon stops */
};
#define UID_BYTES (256ull << 20)
#define ALL_BYTES (512ull << 20)

struct peer *service_find(const struct service *s, uint64_t id)
{
    size_t lo = 0, hi = s->n_peers;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (conn_id(s->peers[mid].conn) < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n_peers && conn_id(s->peers[lo].conn) == id ? &s->peers[lo] : NULL;
}

/* While stopping, close a connection without live requests. */
static void close_idle(struct service *s, struct peer *p)
{
    if ((s->draining || s->fail_code) && !p->asked && conn_live(p->conn) == 0) conn_finish(p->conn);
}

static void on_pause(void *ctx, struct conn *c, bool pause)
{
    struct service *s = ctx;
    engine_pause(s->engine, conn_id(c), pause);
}

/* The request stays live, and charged to its uid, until the engine has freed it. */
static void on_abandon(void *ctx, struct conn *c, uint64_t id)
{
    struct service *s = ctx;
    engine_abandon(s->engine, conn_id(c), id);
}

static void on_finished(void *ctx, struct conn *c)
{
    struct service *s = ctx;
    struct peer *p = service_find(s, conn_id(c));
    if (!p) return;
    p->finished = true;
    s->any_finished = true;
}

static bool is_gateway(const struct service *s, uid_t uid)
{
    bool found = uid == 0 || uid == geteuid();
    for (size_t i = 0; i < s->config.n_gateways; i++) found |= s->config.gateways[i] == uid;
    return found;
}

static int on_user(void *ctx, struct conn *c, const struct proto_text *name)
{
    struct service *s = ctx;
    uid_t uid = conn_uid(c), number;
    if (!is_gateway(s, uid))
        return error_say(-EPERM, "uid %lu may not name users; see 'gateways' in hobd.conf(5)", (unsigned long)uid);
    int r = engine_named_user(s->engine, uid, name, &number);
    if (r == 0) r = conn_move(c, number, name->data);
    if (r < 0) return r;
    log_debug("connection %llu: user %s, number %lu", (unsigned long long)conn_id(c), name->data,
              (unsigned long)number);
    return 0;
}

static const struct conn_ops ops = {
    .user = on_user, .request = service_request, .pause = on_pause, .abandon = on_abandon, .finished = on_finished};

static void deliver(struct service *s, struct engine_event *e)
{
    struct peer *p = service_find(s, e->conn);
    if (!p || !conn_is_live(p->conn, e->ev.id)) return;
    if (e->ev.type == PROTO_EV_STATUS && service_status_add(&e->ev.status, s->accounts, conn_uid(p->conn)) < 0)
        log_debug("no memory for the status of connections");
    conn_send(p->conn, &e->ev);
    if (!e->last) return;
    conn_end(p->conn, e->ev.id);
    close_idle(s, p);
}

static int on_engine(sd_event_source *source, int fd, uint32_t revents, void *ctx)
{
    struct service *s = ctx;
    struct engine_event e;
    for (int i = 0; i < EVENTS_PER_WAKE && engine_poll(s->engine, &e); i++) {
        deliver(s, &e);
        proto_event_fini(&e.ev);
    }
    conns_flush(&s->conns);
    return 0;
}

int service_new(struct service **out, struct sd_event *event, struct engine *engine, const struct service_config *c)
{
    struct service *s = calloc(1, sizeof *s);
    const struct account_limits limits = {.connections = c->connections ? c->connections : CONNECTIONS,
                                          .uid_connections = c->per_uid ? c->per_uid : PER_UID,
                                          .bytes = c->bytes ? c->bytes : ALL_BYTES,
                                          .uid_bytes = c->uid_bytes ? c->uid_bytes : UID_BYTES};
    if (!s) return error_origin(-ENOMEM);
    s->config = *c;
    s->engine = engine;
    int r = conns_init(&s->conns, event, c->limits ? c->limits : &conn_limits_default, &ops, s);
    if (r == 0) r = accounts_new(&s->accounts, &limits);
    if (r == 0) r = sd_event_add_io(event, &s->source, engine_fd(engine), EPOLLIN, on_engine, s);
    if (r >= 0) r = sd_event_source_set_priority(s->source, PRIORITY_ENGINE);
    if (r < 0) {
        service_free(s);
        return error_origin(r);
    }
    *out = s;
    return 0;
}

void service_mute(struct service *s)
{
    if (s) s->source = sd_event_source_disable_unref(s->source);
}

struct service *service_free(struct service *s)
{
    if (!s) return NULL;
    for (size_t i = 0; i < s->n_peers; i++) conn_free(s->peers[i].conn);
    conns_fini(&s->conns);
    accounts_free(s->accounts);
    sd_event_source_disable_unref(s->source);
    free(s->peers);
    free(s->fail_why);
    free(s);
    return NULL;
}

void service_add(struct service *s, int fd)
{
    if (s->n_peers == s->peers_cap) {
        size_t cap = s->peers_cap ? 2 * s->peers_cap : 16;
        struct peer *peers = reallocarray(s->peers, cap, sizeof *peers);
        if (!peers) {
            listener_turn_away(fd, error_origin(-ENOMEM));
            return;
        }
        s->peers = peers;
        s->peers_cap = cap;
    }
    uid_t uid;
    pid_t pid;
    int r = sock_peer(fd, &uid, &pid);
    struct account *a;
    if (r == 0 && !engine_serves(uid))
        r = error_say(-EPERM, "uid %lu is above the uids that hobd serves", (unsigned long)uid);
    if (r == 0) r = account_open(s->accounts, uid, clock_now_usec(), &a);
    if (r == -EAGAIN) {
        listener_turn_away_often(fd);
        return;
    }
    if (r < 0) {
        listener_turn_away(fd, r);
        return;
    }
    struct conn *c;
    r = conn_new(&c, &s->conns, fd, ++s->last_id, a);
    if (r < 0) {
        log_error("a connection of uid %lu: %s", (unsigned long)uid, error_text(r));
        return;
    }
    log_debug("connection %llu: uid %lu, pid %ld", (unsigned long long)s->last_id, (unsigned long)uid, (long)pid);
    s->peers[s->n_peers++] = (struct peer){.conn = c};
    /* conn_move charges the user whom a gateway names. */
    if (!is_gateway(s, uid)) fairq_charge(&s->conns.queue, account_queue(a), CONN_ACCEPT_USEC, clock_now_usec());
}

void service_reap(struct service *s)
{
    size_t kept = 0;
    if (!s->any_finished) return;
    s->any_finished = false;
    for (size_t i = 0; i < s->n_peers; i++)
        if (s->peers[i].finished) {
            log_debug("connection %llu: closed", (unsigned long long)conn_id(s->peers[i].conn));
            conn_free(s->peers[i].conn);
        } else {
            s->peers[kept++] = s->peers[i];
        }
    s->n_peers = kept;
}

void service_drain(struct service *s)
{
    if (s->draining) return;
    for (size_t i = 0; i < s->n_peers; i++) conn_read_rest(s->peers[i].conn, DRAIN_BYTES);
    s->draining = true;
    engine_drain(s->engine);
    for (size_t i = 0; i < s->n_peers; i++) close_idle(s, &s->peers[i]);
    conns_flush(&s->conns);
}

void service_fail(struct service *s, int code, const char *why)
{
    if (s->fail_code) return;
    s->fail_why = strdup(why);
    if (!s->fail_why) return; /* the connections end without the error then */
    s->fail_code = code;
    for (size_t i = 0; i < s->n_peers; i++) {
        struct peer *p = &s->peers[i];
        if (conn_live(p->conn) == 0) continue;
        while (conn_live(p->conn)) {
            uint64_t id = conn_live_at(p->conn, 0);
            conn_send_error(p->conn, id, code, s->fail_why);
            conn_end(p->conn, id);
        }
        close_idle(s, p);
    }
    conns_flush(&s->conns);
}

size_t service_live(const struct service *s)
{
    size_t n = engine_detached(s->engine);
    for (size_t i = 0; i < s->n_peers; i++)
        if (!conn_is_closed(s->peers[i].conn)) n += conn_live(s->peers[i].conn);
    return n;
}

bool service_busy(const struct service *s)
{
    return s->conns.queue.live > 0 || engine_detached(s->engine) > 0;
}

bool service_quiet(const struct service *s)
{
    for (size_t i = 0; i < s->n_peers; i++) {
        const struct conn *c = s->peers[i].conn;
        if (!conn_is_closed(c) && (conn_live(c) || !conn_flushed(c))) return false;
    }
    return engine_detached(s->engine) == 0;
}

size_t service_open(const struct service *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_peers; i++) n += !conn_is_closed(s->peers[i].conn);
    return n;
}

bool service_paused(const struct service *s)
{
    for (size_t i = 0; i < s->n_peers; i++)
        if (conn_paused(s->peers[i].conn)) return true;
    return false;
}

uint64_t service_bytes(const struct service *s)
{
    struct account_limits l;
    size_t connections;
    uint64_t bytes;
    accounts_sum(s->accounts, &connections, &bytes, &l);
    return bytes;
}

uint64_t service_accepted(const struct service *s)
{
    return s->accepted;
}
