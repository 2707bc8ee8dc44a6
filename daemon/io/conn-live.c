/* SPDX-License-Identifier: MIT */
/* The live requests of a connection, with the memory that each of them is charged for. */
#include "daemon/io/conn-state.h"
#include "daemon/io/conn.h"
#include "daemon/io/conns.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>

enum { REQUEST_BYTES = 1024 }; /* memory of a request beside its text */

static struct live *find_live(const struct conn *c, uint64_t id)
{
    for (size_t i = 0; i < c->n_live; i++)
        if (c->live[i].id == id) return &c->live[i];
    return NULL;
}

int conn_begin(struct conn *c, uint64_t id, size_t bytes)
{
    bytes += REQUEST_BYTES;
    if (find_live(c, id))
        return error_say(-EINVAL, "id %llu is used by a request that has not ended", (unsigned long long)id);
    if (c->n_live >= c->shared->limits->requests)
        return error_say(-EBUSY, "this connection has %zu unfinished requests, the limit; wait until one ends",
                         c->n_live);
    if (c->n_live == c->live_cap) {
        size_t cap = c->live_cap ? 2 * c->live_cap : 4;
        struct live *live = reallocarray(c->live, cap, sizeof *live);
        if (!live) return error_origin(-ENOMEM);
        c->live = live;
        c->live_cap = cap;
    }
    c->live_bytes += bytes;
    int r = conn_charge(c);
    if (r < 0) {
        c->live_bytes -= bytes;
        return r;
    }
    c->live[c->n_live++] = (struct live){.id = id, .bytes = bytes};
    fairq_live(&c->shared->queue, account_queue(c->account), 1);
    return 0;
}

int conn_begin_job(struct conn *c, uint64_t id, size_t bytes)
{
    int r = conn_begin(c, id, bytes);
    if (r < 0) return r;
    c->live[c->n_live - 1].job = true;
    account_jobs(c->account)->live++;
    return 0;
}

void conn_end(struct conn *c, uint64_t id)
{
    struct live *l = find_live(c, id);
    if (!l) return;
    c->live_bytes -= l->bytes;
    if (l->job) {
        account_jobs(c->account)->live--;
        conn_release_next(c);
    }
    *l = c->live[--c->n_live];
    fairq_live(&c->shared->queue, account_queue(c->account), -1);
    conn_charge(c);
    conn_settle(c);
}

bool conn_is_live(const struct conn *c, uint64_t id)
{
    return find_live(c, id) != NULL;
}

size_t conn_live(const struct conn *c)
{
    return c->n_live;
}

uint64_t conn_live_at(const struct conn *c, size_t i)
{
    assert(i < c->n_live);
    return c->live[i].id;
}
