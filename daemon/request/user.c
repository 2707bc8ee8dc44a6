/* SPDX-License-Identifier: MIT */
#include "daemon/request/user.h"
#include <assert.h>
#include <stdlib.h>

#define USERS_MOST 1024 /* remembered; one person may have many uids */

void user_counts_add(struct user_counts *sum, const struct user_counts *c)
{
    sum->requests += c->requests;
    sum->tokens_prompt += c->tokens_prompt;
    sum->tokens_cached += c->tokens_cached;
    sum->tokens_generated += c->tokens_generated;
    sum->passes += c->passes;
    sum->tokens_drafted += c->tokens_drafted;
    sum->tokens_accepted += c->tokens_accepted;
    sum->model_drafted += c->model_drafted;
    sum->model_accepted += c->model_accepted;
    sum->joules += c->joules;
    sum->joules_saved += c->joules_saved;
    if (!sum->last_miss) sum->last_miss = c->last_miss;
}

struct user *user_hold(struct users *u, uid_t uid)
{
    struct user **at = &u->list, *x;
    while (*at && (*at)->uid != uid) at = &(*at)->next;
    if ((x = *at)) {
        *at = x->next;
    } else {
        x = calloc(1, sizeof(*x));
        if (!x) return NULL;
        x->uid = uid;
        u->n++;
    }
    x->next = u->list;
    x->holds++;
    return u->list = x;
}

void user_drop(struct user *x)
{
    if (!x) return;
    assert(x->holds > 0);
    x->holds--;
}

static void publish(struct users *u)
{
    const struct user *x = u->list;
    while (x && !x->live) x = x->next;
    atomic_store(&u->alone_uid, x ? x->uid : 0);
    atomic_store(&u->alone_n, u->n_live);
}

void user_begin(struct users *u, struct user *x)
{
    if (x->live++) return;
    u->n_live++;
    publish(u);
}

void user_end(struct users *u, struct user *x)
{
    assert(x->live > 0);
    if (--x->live) return;
    u->n_live--;
    publish(u);
}

bool users_is_full(const struct users *u, uid_t uid, uint64_t room)
{
    uint64_t all = 0, own = 0;
    for (const struct user *x = u->list; x; x = x->next) {
        all += x->live;
        if (x->uid == uid) own = x->live;
    }
    return all >= room && own >= room / (u->n_live + (own == 0));
}

static bool forget_one(struct users *u, uint64_t served)
{
    struct user **last = NULL, *x;
    for (struct user **at = &u->list; *at; at = &(*at)->next)
        if ((*at)->holds == 0 && (*at)->account.served <= served) last = at;
    if (!last) return false;
    x = *last;
    *last = x->next;
    user_counts_add(&u->forgotten, &x->counts);
    free(x);
    u->n--;
    return true;
}

void users_forget(struct users *u, uint64_t served)
{
    while (u->n > USERS_MOST && forget_one(u, served)) continue;
}

bool users_is_alone(void *ctx, uid_t uid)
{
    struct users *u = ctx;
    unsigned n = atomic_load(&u->alone_n);
    return n == 0 || (n == 1 && atomic_load(&u->alone_uid) == uid);
}

void users_free(struct users *u)
{
    while (u->list) {
        struct user *x = u->list;
        u->list = x->next;
        free(x);
    }
}
