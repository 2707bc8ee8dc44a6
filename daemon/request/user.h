/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The ledger of users: for each uid the requests that are not answered, the account with the scheduler, and sums for
 * status. Users without requests are remembered, the most recently seen first, so that they keep their accounts.
 */
#include "daemon/sched/scheduler.h"
#include <stdatomic.h>
#include <sys/types.h>

/* Sums since the start of the daemon. */
struct user_counts {
    uint64_t requests, tokens_prompt, tokens_cached, tokens_generated;
    uint64_t passes, tokens_drafted, tokens_accepted; /* passes that gave tokens of an answer; by request/draft.c */
    double joules, joules_saved;                      /* by request/energy.c */
    const char *last_miss; /* static: why the last prompt was not found as a whole; NULL: no prompt yet */
    uint64_t model_drafted, model_accepted; /* of the drafted and accepted tokens, those of the draft model */
};

struct user {
    uid_t uid;
    /* guarded by the mailbox's lock */
    uint32_t holds; /* requests that point to it */
    uint32_t live;  /* requests without their last event, internal ones excepted */
    struct user *next;
    /* the engine thread's */
    struct user_counts counts;
    struct sched_user account;
    uint32_t index;     /* in the plan's last view */
    uint32_t planned;   /* sequences in the plan */
    uint64_t left_view; /* the number of the last view before it had none left */
    uint64_t turn;      /* of the engine, in which @started of its requests began */
    uint32_t started;
    uint64_t looks_view; /* the view of the plan in which @looks of its sequences were first looked up in the cache */
    uint32_t looks;
};

struct users {
    struct user *list;
    uint32_t n, n_live;             /* users; users with live requests */
    struct user_counts forgotten;   /* sums of users that are no longer remembered */
    atomic_uint alone_n, alone_uid; /* n_live and the first such uid, for readers without the lock */
};

/* The caller of all functions but users_is_alone holds the mailbox's lock. */

/* The user with @uid, which stays until user_drop. NULL: no memory. */
struct user *user_hold(struct users *u, uid_t uid);
void user_drop(struct user *x); /* NULL ok */

/* One more live request; one less. */
void user_begin(struct users *u, struct user *x);
void user_end(struct users *u, struct user *x);

/* True if @uid may not begin another request. Unfinished requests are limited to @room, but a user with less than an
 * even share of @room may always begin one. */
bool users_is_full(const struct users *u, uid_t uid, uint64_t room);

/* Forget users without requests that are too many, the least recently seen first, and whose account is at most @served
 * units: they would get about the same account again. */
void users_forget(struct users *u, uint64_t served);

/* Does no user but @uid have live requests? @ctx: struct users. Any thread, without the lock. */
bool users_is_alone(void *ctx, uid_t uid);

void user_counts_add(struct user_counts *sum, const struct user_counts *c);
void users_free(struct users *u);
