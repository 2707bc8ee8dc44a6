/* SPDX-License-Identifier: MIT */
#include "daemon/request/constraint-inside.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/random.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define COMPLETION_MAX 65536 /* bytes */
#define IGNORED_MAX    4096  /* bytes of the lines about what is ignored */

int constraints_new(struct constraints **out, const struct tokenizer *t)
{
    struct constraints *c = calloc(1, sizeof(*c));
    if (!c) return -ENOMEM;
    int r = random_fill(&c->secret, sizeof(c->secret));
    if (r < 0) {
        free(c);
        return error_in(r, "random numbers");
    }
    pthread_mutex_init(&c->lock, NULL);
    c->tokenizer = t;
    *out = c;
    return 0;
}

DEFINE_CLEANUP(struct entry *, entry_free)

static struct entry *entry_new(void)
{
    struct entry *e = calloc(1, sizeof(*e));
    pthread_condattr_t clock;
    if (!e) return NULL;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->base.lock, NULL);
    pthread_cond_init(&e->base.idle, &clock);
    pthread_condattr_destroy(&clock);
    return e;
}

struct constraints *constraints_free(struct constraints *c)
{
    if (!c) return NULL;
    for (struct entry *e = c->list, *next; e; e = next) {
        next = e->next;
        entry_free(e);
    }
    token_trie_free(c->trie);
    for (struct constraint_user *u = c->users, *next; u; u = next) {
        next = u->next;
        grammar_memory_unref(&u->memory);
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

/* --- keys --- */

static int append_counted(struct buf *key, const char *s, size_t n)
{
    int r = buf_append(key, &n, sizeof(n));
    return r == 0 && n ? buf_append(key, s, n) : r;
}

static int add_tools(struct buf *key, const struct constraint_source *s)
{
    const struct tool_grammar *t = s->tools;
    const char *only = t->only ? t->only : "";
    int r = append_counted(key, s->list->data, s->list->len);
    if (r == 0) r = append_counted(key, only, strlen(only));
    if (r == 0) r = buf_append(key, &t->start, sizeof(t->start));
    return r == 0 ? buf_append(key, &t->part, sizeof(t->part)) : r;
}

static int make_key(struct buf *key, const struct constraint_owner *owner, const struct constraint_source *s)
{
    const struct proto_constraint *p = s->constraint;
    const enum proto_constraint_type type = p ? p->type : PROTO_CONSTRAINT_NONE;
    int r = buf_append(key, &owner->uid, sizeof(owner->uid));
    if (r == 0) r = buf_append(key, &type, sizeof(type));
    if (r == 0) r = append_counted(key, owner->salt->data, owner->salt->len);
    if (!p) return r == 0 ? add_tools(key, s) : r;
    const bool options[] = {p->schema_lenient, p->any_order, p->compact};
    if (r == 0) r = buf_append(key, options, sizeof(options));
    if (r == 0) r = append_counted(key, p->text.data, p->text.len);
    for (size_t i = 0; r == 0 && i < p->n_choices; i++) r = append_counted(key, p->choices[i].data, p->choices[i].len);
    return r;
}

/* The owner's. */
static struct mask_space space_of(const struct constraints *c, const struct constraint_owner *owner)
{
    uint64_t seed = XXH3_64bits_withSeed(&owner->uid, sizeof(owner->uid), c->secret);
    XXH128_hash_t hash = XXH3_128bits_withSeed(owner->salt->len ? owner->salt->data : "", owner->salt->len, seed);
    return (struct mask_space){{hash.low64, hash.high64}};
}

/* The entry with the key of @e, which becomes the last used one; NULL: there is none. The lock is held. */
static struct entry *find(struct constraints *c, const struct entry *e)
{
    for (struct entry **at = &c->list, *x; (x = *at); at = &x->next) {
        if (!XXH128_isEqual(x->hash, e->hash) || x->key.len != e->key.len ||
            memcmp(x->key.data, e->key.data, e->key.len) != 0)
            continue;
        *at = x->next;
        x->next = c->list;
        c->list = x;
        return x;
    }
    return NULL;
}

/* --- compiling --- */

/* The trie of the vocabulary, made by the first constraint. It takes a while, so the lock is free meanwhile; if several
 * threads make it, the first one's is kept. 0 or -ENOMEM. */
static int get_trie(struct constraints *c, const struct token_trie **out)
{
    struct token_trie *made = NULL;
    pthread_mutex_lock(&c->lock);
    *out = c->trie;
    pthread_mutex_unlock(&c->lock);
    if (*out) return 0;
    int r = token_trie_new(&made, c->tokenizer);
    if (r < 0) return r;
    pthread_mutex_lock(&c->lock);
    if (!c->trie) c->trie = steal(made);
    *out = c->trie;
    pthread_mutex_unlock(&c->lock);
    token_trie_free(made);
    return 0;
}

static int refused(int r, const struct proto_constraint *p)
{
    char why[1024];
    snprintf(why, sizeof(why), "%s", error_text(r));
    return p ? error_say(-EDOM, "%s: %s", proto_constraint_name(p->type), why) : error_say(-EDOM, "%s", why);
}

/* The first mask of a vocabulary takes longest; and the lengths of completions are found once. 0 or the grammar's
 * error. */
static int prepare(struct grammar *g, const struct token_trie *t)
{
    struct grammar_state *st = NULL;
    struct buf text = BUF_INIT;
    _cleanup_(freep) uint64_t *mask = calloc(token_trie_words(t), sizeof(*mask));
    int r = mask ? grammar_state_new(&st, g) : error_origin(-ENOMEM);
    if (r == 0) r = grammar_state_mask(st, t, mask);
    if (r == 0) (void)!grammar_state_shortest(st, &text, COMPLETION_MAX);
    buf_fini(&text);
    grammar_state_free(st);
    return r;
}

static int compile(struct constraints *c, const struct constraint_owner *owner, const struct constraint_source *s,
                   struct entry *e)
{
    struct buf ignored = BUF_INIT;
    size_t len;
    int r = get_trie(c, &e->base.trie);
    if (r == 0) r = constraint_compile(&e->base.grammar, s, c->tokenizer, &e->user->memory, &ignored);
    if (r == 0) grammar_set_space(e->base.grammar, space_of(c, owner));
    if (ignored.len > IGNORED_MAX) ignored.data[IGNORED_MAX] = 0;
    e->base.ignored = buf_steal(&ignored, &len);
    if (r == 0) r = prepare(e->base.grammar, e->base.trie);
    return r == 0 || r == -ENOMEM || r == -EDQUOT ? r : refused(r, s->constraint);
}

/* The entry with the key of @e, held; NULL: there is none. */
static struct entry *hold_old(struct constraints *c, const struct entry *e)
{
    pthread_mutex_lock(&c->lock);
    struct entry *x = find(c, e);
    if (x) x->holds++;
    pthread_mutex_unlock(&c->lock);
    return x;
}

/* Adds @e to the cache, unless another thread has added an equal one. Returns the one that is kept, held. */
static struct entry *hold_new(struct constraints *c, struct entry *e)
{
    pthread_mutex_lock(&c->lock);
    struct entry *x = find(c, e);
    if (!x) {
        x = e;
        x->next = c->list;
        c->list = x;
    }
    x->holds++;
    pthread_mutex_unlock(&c->lock);
    constraints_shrink(c, x->user);
    return x;
}

int constraint_hold(struct constraints *c, const struct constraint_owner *owner, const struct constraint_source *s,
                    struct constraint **out)
{
    _cleanup_(entry_freep) struct entry *e = entry_new();
    if (!e || make_key(&e->key, owner, s) < 0) return error_origin(-ENOMEM);
    e->hash = XXH3_128bits(e->key.data, e->key.len);
    struct entry *x = hold_old(c, e);
    if (!x) {
        if (!(e->user = constraint_user_hold(c, owner->uid))) return error_origin(-ENOMEM);
        int r = compile(c, owner, s, e);
        if (r < 0) return r;
        x = hold_new(c, e);
        if (x == e) e = NULL;
    }
    *out = &x->base;
    return 0;
}

void constraint_keep(struct constraints *c, struct constraint *x)
{
    pthread_mutex_lock(&c->lock);
    ((struct entry *)x)->holds++;
    pthread_mutex_unlock(&c->lock);
}

void constraint_drop(struct constraints *c, struct constraint *x)
{
    if (!x) return;
    pthread_mutex_lock(&c->lock);
    ((struct entry *)x)->holds--;
    pthread_mutex_unlock(&c->lock);
}

/* --- jobs --- */

void constraint_job_begins(struct constraints *c, struct constraint *x)
{
    constraint_keep(c, x);
    pthread_mutex_lock(&x->lock);
    x->jobs++;
    pthread_mutex_unlock(&x->lock);
}

void constraint_job_ends(struct constraint *x)
{
    pthread_mutex_lock(&x->lock);
    if (--x->jobs == 0) pthread_cond_broadcast(&x->idle);
    pthread_mutex_unlock(&x->lock);
}

bool constraint_wait(struct constraint *x, uint64_t until)
{
    const struct timespec t = {.tv_sec = (time_t)(until / 1000000), .tv_nsec = (long)(until % 1000000 * 1000)};
    pthread_mutex_lock(&x->lock);
    while (x->jobs && pthread_cond_timedwait(&x->idle, &x->lock, &t) == 0) continue;
    bool idle = x->jobs == 0;
    pthread_mutex_unlock(&x->lock);
    return idle;
}

bool constraint_busy(const struct constraint *x)
{
    return !constraint_wait((struct constraint *)x, 0);
}
