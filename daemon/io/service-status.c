/* SPDX-License-Identifier: MIT */
#include "daemon/io/service-status.h"
#include "libcommon/buf.h"
#include <unistd.h>

typedef unsigned long long ull;

/* The numbers of @uid: zeros when it has no account. */
static struct account_info info_of(const struct accounts *a, uid_t uid)
{
    const struct account *at = NULL;
    struct account_info i;
    while ((at = accounts_next(a, at, &i)))
        if (i.uid == uid) return i;
    return (struct account_info){0};
}

/* Connections and bytes with their limits: of all users, or of @uid only. */
static int add_clients(struct buf *b, const struct accounts *a, bool all, uid_t uid)
{
    struct account_limits l;
    size_t connections;
    uint64_t bytes;
    accounts_sum(a, &connections, &bytes, &l);
    if (!all) {
        const struct account_info own = info_of(a, uid);
        connections = own.connections;
        bytes = own.bytes;
    }
    return buf_printf(
        b, ",\"clients\":{\"connections\":%zu,\"connections_max\":%zu,\"bytes_held\":%llu,\"bytes_max\":%llu}",
        connections, all ? l.connections : l.uid_connections, (ull)bytes, (ull)(all ? l.bytes : l.uid_bytes));
}

/* A row of the table of users. */
static int add_peer(struct buf *b, const struct account_info *i)
{
    int r = buf_printf(b, "{\"uid\":%lu,", (unsigned long)(*i->name ? i->gateway : i->uid));
    if (r == 0 && *i->name) r = buf_printf(b, "\"user\":\"%s\",", i->name);
    if (r < 0) return r;
    return buf_printf(b,
                      "\"connections\":%zu,\"live\":%llu,\"bytes_held\":%llu,\"messages\":%llu,\"errors\":%llu,"
                      "\"refused\":%llu,\"busy_ms\":%llu,\"throttled_ms\":%llu}",
                      i->connections, (ull)i->queue->live, (ull)i->bytes, (ull)i->counts.messages,
                      (ull)i->counts.errors, (ull)i->counts.refused, (ull)i->queue->spent / 1000,
                      (ull)i->queue->waited / 1000);
}

static int add_peers(struct buf *b, const struct accounts *a)
{
    struct account_info i;
    int r = buf_puts(b, ",\"peers\":[");
    for (const struct account *at = NULL, *next; r == 0 && (next = accounts_next(a, at, &i)); at = next) {
        if (at) r = buf_puts(b, ",");
        if (r == 0) r = add_peer(b, &i);
    }
    return r == 0 ? buf_puts(b, "]") : r;
}

int service_status_add(struct proto_text *status, const struct accounts *a, uid_t uid)
{
    bool all = uid == 0 || uid == geteuid();
    struct buf b = BUF_INIT;
    if (status->len < 2 || status->data[status->len - 1] != '}') return 0;
    int r = buf_append(&b, status->data, status->len - 1);
    if (r == 0) r = add_clients(&b, a, all, uid);
    if (r == 0 && all) r = add_peers(&b, a);
    if (r == 0) r = buf_puts(&b, "}");
    if (r == 0) {
        proto_text_fini(status);
        status->data = buf_steal(&b, &status->len);
    }
    buf_fini(&b);
    return r;
}
