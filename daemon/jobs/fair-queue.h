/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A fair queue: decides whose work a thread does next. Users take turns, and the entries of one user (connections with
 * input, jobs) take turns within the turns of the user.
 *
 * A user who keeps the thread busy is throttled, but only while other users want service. Each user has a debt: the
 * time spent on the user, less a share of the elapsed time. A user whose debt exceeds config.burst is heavy. Heavy
 * users are served only when no other user has work. While another user waits for an answer, all heavy users together
 * get at most 1/config.heavy_share of the thread's time, so that the CPU can compute that answer.
 *
 * Pure: the time is an argument, in microseconds of any monotonic clock.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fairq_config {
    uint64_t burst;       /* us of debt above which a user is heavy */
    uint64_t heavy_burst; /* maximum us of the common debt of all heavy users; it limits how long they wait */
    unsigned user_share;  /* a user's debt decreases by 1 us in every user_share us */
    unsigned heavy_share; /* the common debt decreases by 1 us in every heavy_share us */
};

/* One job, or a connection with input; zero at first. */
struct fairq_entry {
    struct fairq_entry *next;
    struct fairq_user *user; /* NULL: the entry is not in the queue */
};

/* One user; zero at first. */
struct fairq_user {
    uint64_t live; /* unanswered requests */
    /* private to the queue */
    struct fairq_entry *first, *last;
    struct fairq_user *next; /* in its list of users */
    bool queued, blocked;
    uint64_t debt, debt_at;      /* us; the time at which the debt was computed */
    uint64_t spent;              /* us in total, for status */
    uint64_t waited, waits_from; /* us that the user was throttled with work; start of the current wait, 0: none */
};

/* A list of users. */
struct fairq_list {
    struct fairq_user *first, *last;
};

/* Zero except @config at first. */
struct fairq {
    struct fairq_config config;
    /* True if no user except @u waits for an answer. NULL: fairq_live counts the requests. */
    bool (*alone)(const struct fairq *q, const struct fairq_user *u);
    bool no_heavy; /* serve light users only */
    /* private to the queue */
    struct fairq_list light, heavy;
    uint64_t live;          /* unanswered requests of all users */
    uint64_t debt, debt_at; /* us, common to all heavy users; the time at which it was computed */
};

/* Queue @x, which has work, for user @u. Does nothing if it is queued already. */
void fairq_add(struct fairq *q, struct fairq_user *u, struct fairq_entry *x, uint64_t now);
/* Remove @x, which has no work any more or is about to be freed. Does nothing if it is not queued. */
void fairq_remove(struct fairq *q, struct fairq_entry *x);

/* Block @u, so that none of its entries is served, or unblock it. */
void fairq_block(struct fairq *q, struct fairq_user *u, bool block, uint64_t now);

/* Add @n to the number of unanswered requests of @u; @n is negative when requests end. */
void fairq_live(struct fairq *q, struct fairq_user *u, int n);

/* Take the next entry out of the queue. The caller serves it, and adds it again if it has more work. NULL: no entry can
 * be served. *wait_usec is then the time until a throttled user may be served, or 0 if no user is throttled. */
struct fairq_entry *fairq_next(struct fairq *q, uint64_t now, uint64_t *wait_usec);

/* True if @u is heavy now. */
bool fairq_is_heavy(const struct fairq *q, const struct fairq_user *u, uint64_t now);

/* Charge @u for @usec of the thread's time. */
void fairq_charge(struct fairq *q, struct fairq_user *u, uint64_t usec, uint64_t now);
/* The same for a service that may take many seconds at once: more of it counts, up to 10 s. */
void fairq_charge_long(struct fairq *q, struct fairq_user *u, uint64_t usec, uint64_t now);

/* True if any user has work. */
bool fairq_any(const struct fairq *q);
