/* SPDX-License-Identifier: MIT */
#include "daemon/media/pixel-budget.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct holder {
    uid_t uid;
    uint64_t bytes;
    struct holder *next;
};

struct pixel_budget {
    pthread_mutex_t lock;
    uint64_t bytes_max, bytes;
    struct holder *holders; /* with more than 0 bytes */
};

int pixel_budget_new(struct pixel_budget **out, uint64_t bytes_max)
{
    struct pixel_budget *b = calloc(1, sizeof(*b));
    if (!b) return -ENOMEM;
    pthread_mutex_init(&b->lock, NULL);
    b->bytes_max = bytes_max;
    *out = b;
    return 0;
}

struct pixel_budget *pixel_budget_free(struct pixel_budget *b)
{
    if (!b) return NULL;
    assert(!b->holders);
    pthread_mutex_destroy(&b->lock);
    free(b);
    return NULL;
}

static struct holder **find(struct pixel_budget *b, uid_t uid)
{
    struct holder **at = &b->holders;
    while (*at && (*at)->uid != uid) at = &(*at)->next;
    return at;
}

bool pixel_budget_take(struct pixel_budget *b, uid_t uid, uint64_t bytes)
{
    pthread_mutex_lock(&b->lock);
    struct holder **at = find(b, uid), *x = *at;
    const uint64_t own = (x ? x->bytes : 0) + bytes, left = b->bytes_max - b->bytes;
    bool fits = bytes <= left && own <= left - bytes;
    if (fits && !x) x = *at = calloc(1, sizeof(*x));
    fits = fits && x;
    if (fits) {
        x->uid = uid;
        x->bytes = own;
        b->bytes += bytes;
    }
    pthread_mutex_unlock(&b->lock);
    return fits;
}

void pixel_budget_give(struct pixel_budget *b, uid_t uid, uint64_t bytes)
{
    pthread_mutex_lock(&b->lock);
    struct holder **at = find(b, uid), *x = *at;
    assert(x && x->bytes >= bytes);
    x->bytes -= bytes;
    b->bytes -= bytes;
    if (x->bytes == 0) {
        *at = x->next;
        free(x);
    }
    pthread_mutex_unlock(&b->lock);
}

uint64_t pixel_budget_bytes(struct pixel_budget *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t bytes = b->bytes;
    pthread_mutex_unlock(&b->lock);
    return bytes;
}
