/* SPDX-License-Identifier: MIT */
#include "daemon/io/account.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>

struct account {
    struct accounts *all;
    struct account *next;
    uid_t uid;
    size_t connections;
    uint64_t bytes;
};

struct accounts {
    struct account *first; /* as many as uids that are connected now: few */
    size_t connections, connections_max, per_uid_max;
    uint64_t bytes_max;
};

int accounts_new(struct accounts **out, size_t connections, size_t per_uid, uint64_t bytes)
{
    struct accounts *a = calloc(1, sizeof *a);

    if (!a) return error_origin(-ENOMEM);
    a->connections_max = connections;
    a->per_uid_max = per_uid;
    a->bytes_max = bytes;
    *out = a;
    return 0;
}

struct accounts *accounts_free(struct accounts *a)
{
    assert(!a || !a->first);
    free(a);
    return NULL;
}

int account_open(struct accounts *a, uid_t uid, struct account **out)
{
    struct account *x;

    if (a->connections >= a->connections_max)
        return error_say(-EBUSY, "the daemon has %zu connections and takes no more; try again", a->connections);
    for (x = a->first; x && x->uid != uid; x = x->next) continue;
    if (!x) {
        x = calloc(1, sizeof *x);
        if (!x) return error_origin(-ENOMEM);
        x->all = a;
        x->uid = uid;
        x->next = a->first;
        a->first = x;
    }
    if (x->connections >= a->per_uid_max)
        return error_say(-EBUSY, "uid %lu has %zu connections and gets no more; try again", (unsigned long)uid,
                         x->connections);
    x->connections++;
    a->connections++;
    *out = x;
    return 0;
}

struct account *account_close(struct account *x)
{
    struct accounts *a;

    if (!x) return NULL;
    a = x->all;
    a->connections--;
    if (--x->connections) return NULL;
    assert(x->bytes == 0);
    for (struct account **p = &a->first; *p; p = &(*p)->next)
        if (*p == x) {
            *p = x->next;
            break;
        }
    free(x);
    return NULL;
}

int account_charge(struct account *x, uint64_t *charged, uint64_t bytes)
{
    uint64_t others = x->bytes - *charged, total;

    if (bytes > *charged && (__builtin_add_overflow(others, bytes, &total) || total > x->all->bytes_max))
        return error_say(-EDQUOT, "uid %lu has %llu MiB waiting here, %llu are allowed; try again",
                         (unsigned long)x->uid, (unsigned long long)(x->bytes >> 20),
                         (unsigned long long)(x->all->bytes_max >> 20));
    x->bytes = others + bytes;
    *charged = bytes;
    return 0;
}

uint64_t account_bytes(const struct account *x)
{
    return x->bytes;
}
