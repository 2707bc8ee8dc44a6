/* SPDX-License-Identifier: MIT */
/* Who has how many of the requests that were taken and are not answered: so that at the door, too, nobody is turned
 * away because another has asked for too much. All with the lock held. */
#include "daemon/engine/state.h"
#include <assert.h>
#include <errno.h>

static struct share *find(const struct engine *e, uid_t uid)
{
    for (uint32_t i = 0; i < e->n_shares; i++)
        if (e->shares[i].uid == uid) return &e->shares[i];
    return NULL;
}

/* For those who ask without the lock. */
static void publish(struct engine *e)
{
    atomic_store(&e->live_uid, e->n_shares ? e->shares[0].uid : 0);
    atomic_store(&e->live_users, e->n_shares);
}

bool share_is_alone(void *ctx, uid_t uid)
{
    struct engine *e = ctx;
    unsigned n = atomic_load(&e->live_users);
    return n == 0 || (n == 1 && atomic_load(&e->live_uid) == uid);
}

bool share_is_full(const struct engine *e, uid_t uid, uint64_t room)
{
    const struct share *own = find(e, uid);
    uint64_t all = 0, users = e->n_shares + !own;
    for (uint32_t i = 0; i < e->n_shares; i++) all += e->shares[i].n;
    return all >= room && (own ? own->n : 0) >= room / users;
}

int share_take(struct engine *e, uid_t uid)
{
    struct share *own = find(e, uid);
    if (!own) {
        struct share *more = reallocarray(e->shares, e->n_shares + 1, sizeof(*more));
        if (!more) return -ENOMEM;
        e->shares = more;
        own = &more[e->n_shares++];
        *own = (struct share){.uid = uid};
    }
    own->n++;
    publish(e);
    return 0;
}

void share_give(struct engine *e, uid_t uid)
{
    struct share *own = find(e, uid);
    assert(own);
    if (--own->n == 0) *own = e->shares[--e->n_shares];
    publish(e);
}
