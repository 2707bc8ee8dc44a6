/* SPDX-License-Identifier: MIT */
#include "daemon/io/account.h"
#include "libcommon/decay.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An account without a connection is kept for a while, so that its uid cannot reset its use by reconnecting. */
#define ACCOUNTS_IDLE_MAX 64

struct account {
    struct accounts *all;
    struct account *next; /* opened earlier */
    uid_t uid, gateway;
    char name[PROTO_USER_MAX + 1]; /* of a gateway's user, else "" */
    size_t connections;
    uint64_t bytes;
    uint64_t new_debt, new_at; /* recent connections, each 1/ACCOUNT_RATE s, in us; when it was computed */
    struct account_counts counts;
    struct fairq_user queue;
    struct account_jobs jobs;
};

struct accounts {
    struct account *first;
    struct account_limits limits;
    size_t connections, idle; /* idle: accounts without a connection */
    uint64_t bytes;
};

int accounts_new(struct accounts **out, const struct account_limits *l)
{
    struct accounts *a = calloc(1, sizeof *a);
    if (!a) return error_origin(-ENOMEM);
    a->limits = *l;
    *out = a;
    return 0;
}

struct accounts *accounts_free(struct accounts *a)
{
    if (!a) return NULL;
    assert(a->connections == 0);
    while (a->first) {
        struct account *x = a->first;
        a->first = x->next;
        free(x);
    }
    free(a);
    return NULL;
}

/* Free the oldest idle account. */
static void forget_one(struct accounts *a)
{
    struct account **oldest = NULL;
    for (struct account **at = &a->first; *at; at = &(*at)->next)
        if ((*at)->connections == 0) oldest = at;
    if (!oldest) return;
    struct account *x = *oldest;
    *oldest = x->next;
    a->idle--;
    free(x);
}

/* The account of @uid, moved to the front. NULL: no memory. */
static struct account *get(struct accounts *a, uid_t uid)
{
    struct account **at = &a->first;
    while (*at && (*at)->uid != uid) at = &(*at)->next;
    struct account *x = *at;
    if (x) {
        *at = x->next;
    } else {
        x = calloc(1, sizeof *x);
        if (!x) return NULL;
        x->all = a;
        x->uid = uid;
        a->idle++;
    }
    x->next = a->first;
    a->first = x;
    if (a->idle > ACCOUNTS_IDLE_MAX) forget_one(a);
    return x;
}

/* True if the user makes new connections too often. Each counts for 1/ACCOUNT_RATE s. */
static bool too_often(struct account *x, uint64_t now)
{
    const uint64_t each = 1000000 / ACCOUNT_RATE;
    x->new_debt = decay_debt(x->new_debt, now - x->new_at, 1);
    x->new_at = now;
    if (x->new_debt > ACCOUNT_BURST * each) return true;
    x->new_debt += each;
    return false;
}

/* "uid 1000", or "user ada". */
static const char *label(const struct account *x, char out[static PROTO_USER_MAX + 8])
{
    if (*x->name)
        snprintf(out, PROTO_USER_MAX + 8, "user %s", x->name);
    else
        snprintf(out, PROTO_USER_MAX + 8, "uid %lu", (unsigned long)x->uid);
    return out;
}

/* One more connection of @x; all users together may have @left more. */
static int take(struct account *x, size_t left)
{
    char who[PROTO_USER_MAX + 8];
    if (x->connections >= x->all->limits.uid_connections || x->connections >= left) x->counts.refused++;
    if (x->connections >= x->all->limits.uid_connections)
        return error_say(-EBUSY, "%s has %zu connections, the limit per user; close some or try again", label(x, who),
                         x->connections);
    if (x->connections >= left)
        return error_say(
            -EBUSY, "%s has %zu connections; the last %zu of the daemon's %zu are reserved for other users; try again",
            label(x, who), x->connections, left, x->all->limits.connections);
    if (x->connections++ == 0) x->all->idle--;
    x->all->connections++;
    return 0;
}

int account_open(struct accounts *a, uid_t uid, uint64_t now, struct account **out)
{
    struct account *x = get(a, uid);
    if (!x) return error_origin(-ENOMEM);
    if (too_often(x, now)) {
        x->counts.refused++;
        return -EAGAIN; /* without a message: this has to be cheap */
    }
    int r = take(x, a->limits.connections - a->connections);
    if (r == 0) *out = x;
    return r;
}

int account_move(struct account **at, uid_t number, const char *name, uint64_t now)
{
    struct account *from = *at, *x = get(from->all, number);
    const uint64_t each = 1000000 / ACCOUNT_RATE;
    from->new_debt -= from->new_debt < each ? from->new_debt : each;
    if (!x) return error_origin(-ENOMEM);
    x->gateway = from->uid;
    snprintf(x->name, sizeof(x->name), "%s", name);
    if (too_often(x, now)) {
        x->counts.refused++;
        return error_say(-EBUSY, "user %s makes more than %d new connections a second; try again", name, ACCOUNT_RATE);
    }
    int r = take(x, from->all->limits.connections - from->all->connections + 1);
    if (r < 0) return r;
    account_close(from);
    *at = x;
    return 0;
}

struct account *account_close(struct account *x)
{
    if (!x) return NULL;
    x->all->connections--;
    if (--x->connections) return NULL;
    assert(x->bytes == 0 && x->queue.live == 0 && x->jobs.live == 0 && !x->jobs.first);
    x->all->idle++;
    return NULL;
}

static int over(const struct account *x, uint64_t limit)
{
    char who[PROTO_USER_MAX + 8];
    return error_say(-EDQUOT,
                     "%s has %llu MiB of queued requests and unread answers; the limit is now %llu MiB; try again",
                     label(x, who), (unsigned long long)(x->bytes >> 20), (unsigned long long)(limit >> 20));
}

/* @bytes, which are needed at once, are more than a user may ever have. */
static int never(const struct account *x, uint64_t bytes, uint64_t limit)
{
    char who[PROTO_USER_MAX + 8];
    return error_say(-EDQUOT, "a request or file of %s needs %llu MiB; the limit is %llu MiB for all that a user has",
                     label(x, who), (unsigned long long)(bytes >> 20) + !!(bytes & 0xfffff),
                     (unsigned long long)(limit >> 20));
}

int account_charge(struct account *x, uint64_t *charged, uint64_t bytes)
{
    struct accounts *a = x->all;
    uint64_t mine = x->bytes - *charged, all = a->bytes - *charged, total;
    if (bytes > *charged) {
        const uint64_t most = a->limits.uid_bytes < a->limits.bytes / 2 ? a->limits.uid_bytes : a->limits.bytes / 2;
        if (bytes - *charged > most) return never(x, bytes - *charged, most);
        uint64_t left = all < a->limits.bytes ? a->limits.bytes - all : 0;
        if (__builtin_add_overflow(mine, bytes, &total) || total > a->limits.uid_bytes)
            return over(x, a->limits.uid_bytes);
        /* the uid may hold no more than it leaves free */
        if (bytes > left || total > left - bytes) return over(x, (left + mine) / 2);
    }
    x->bytes = mine + bytes;
    a->bytes = all + bytes;
    *charged = bytes;
    return 0;
}

uid_t account_uid(const struct account *x)
{
    return x->uid;
}

uint64_t account_bytes(const struct account *x)
{
    return x->bytes;
}

struct account_counts *account_counts(struct account *x)
{
    return &x->counts;
}

struct fairq_user *account_queue(struct account *x)
{
    return &x->queue;
}

struct account_jobs *account_jobs(struct account *x)
{
    return &x->jobs;
}

void accounts_sum(const struct accounts *a, size_t *connections, uint64_t *bytes, struct account_limits *limits)
{
    *connections = a->connections;
    *bytes = a->bytes;
    *limits = a->limits;
}

const struct account *accounts_next(const struct accounts *a, const struct account *at, struct account_info *out)
{
    at = at ? at->next : a->first;
    if (!at) return NULL;
    *out = (struct account_info){.uid = at->uid,
                                 .gateway = at->gateway,
                                 .name = at->name,
                                 .connections = at->connections,
                                 .bytes = at->bytes,
                                 .counts = at->counts,
                                 .queue = &at->queue};
    return at;
}
