/* SPDX-License-Identifier: MIT */
/* The memory of constraints: how much each user has, and which of them are forgotten. */
#include "daemon/request/constraint-inside.h"
#include "daemon/text/grammar/mask-cache.h"
#include <stdlib.h>

struct entry *entry_free(struct entry *e)
{
    if (!e) return NULL;
    grammar_unref(e->base.grammar);
    if (e->user) grammar_memory_unref(&e->user->memory);
    pthread_mutex_destroy(&e->base.lock);
    pthread_cond_destroy(&e->base.idle);
    buf_fini(&e->key);
    free(e->base.ignored);
    free(e);
    return NULL;
}

/* Takes out of the list the entry of @u that was used longest ago, of those that nobody holds; NULL: there is none. The
 * lock is held. */
static struct entry *take_idle(struct constraints *c, const struct constraint_user *u)
{
    struct entry **last = NULL;
    for (struct entry **at = &c->list; *at; at = &(*at)->next)
        if ((*at)->holds == 0 && (*at)->user == u) last = at;
    if (!last) return NULL;
    struct entry *e = *last;
    *last = e->next;
    e->next = NULL;
    return e;
}

/* The limit of a user is reached. */
static bool free_some(struct grammar_memory *m)
{
    struct constraint_user *u = (struct constraint_user *)m;
    struct constraints *c = u->cache;
    pthread_mutex_lock(&c->lock);
    struct entry *e = take_idle(c, u);
    struct token_trie *trie = c->trie;
    pthread_mutex_unlock(&c->lock);
    entry_free(e);
    return e || (trie && mask_cache_evict(trie->cache, m));
}

/* Forget the users who have nothing any more. The lock is held. */
static void forget_users(struct constraints *c)
{
    for (struct constraint_user **at = &c->users, *u; (u = *at);) {
        if (atomic_load(&u->memory.refs) > 1) {
            at = &u->next;
            continue;
        }
        *at = u->next;
        grammar_memory_unref(&u->memory);
    }
}

static struct constraint_user *new_user(struct constraints *c, uid_t uid)
{
    struct constraint_user *u = calloc(1, sizeof(*u));
    if (!u) return NULL;
    *u = (struct constraint_user){
        .memory = {.refs = 1, .max = CONSTRAINTS_USER_BYTES, .free_some = free_some}, c->users, c, uid};
    return c->users = u;
}

struct constraint_user *constraint_user_hold(struct constraints *c, uid_t uid)
{
    pthread_mutex_lock(&c->lock);
    forget_users(c);
    struct constraint_user *u = c->users;
    while (u && u->uid != uid) u = u->next;
    if (!u) u = new_user(c, uid);
    if (u) grammar_memory_ref(&u->memory);
    pthread_mutex_unlock(&c->lock);
    return u;
}

static bool has_idle(const struct constraints *c, const struct constraint_user *u)
{
    for (const struct entry *e = c->list; e; e = e->next)
        if (e->holds == 0 && e->user == u) return true;
    return false;
}

/* Who has the most memory and an entry that nobody uses, and is @asker or has more than an even share. */
static struct constraint_user *who_gives(const struct constraints *c, const struct constraint_user *asker, size_t share)
{
    struct constraint_user *most = NULL;
    for (struct constraint_user *u = c->users; u; u = u->next)
        if ((u == asker || u->memory.used > share) && (!most || u->memory.used > most->memory.used) && has_idle(c, u))
            most = u;
    return most;
}

/* One entry that is too many, taken out of the list; NULL: there is none. */
static struct entry *take_surplus(struct constraints *c, const struct constraint_user *asker)
{
    size_t sum = 0, n = 0;
    struct constraint_user *from = NULL;
    pthread_mutex_lock(&c->lock);
    for (const struct constraint_user *u = c->users; u; u = u->next, n++) sum += u->memory.used;
    if (sum > CONSTRAINTS_BYTES) from = who_gives(c, asker, CONSTRAINTS_BYTES / n);
    struct entry *e = from ? take_idle(c, from) : NULL;
    pthread_mutex_unlock(&c->lock);
    return e;
}

void constraints_shrink(struct constraints *c, const struct constraint_user *u)
{
    for (struct entry *e; (e = take_surplus(c, u));) entry_free(e);
}

void constraints_stats(struct constraints *c, uid_t uid, struct constraints_stats *out)
{
    *out = (struct constraints_stats){0};
    pthread_mutex_lock(&c->lock);
    for (const struct entry *e = c->list; e; e = e->next) out->n += e->user->uid == uid;
    for (const struct constraint_user *u = c->users; u; u = u->next)
        if (u->uid == uid) out->bytes = atomic_load(&u->memory.used);
    pthread_mutex_unlock(&c->lock);
}
