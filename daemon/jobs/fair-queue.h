/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A fair queue: whose work a thread does next. Users take turns; the entries of one user (connections with input, jobs)
 * take turns within the user's.
 *
 * A user who keeps the thread busy is throttled, but only in favour of others. Each user has a debt: the time that was
 * spent on the user, less a share of the time that has passed. A user whose debt is over a limit is heavy. Heavy users
 * are served when no other user has work, and while somebody else waits for an answer they get, all together, a share
 * of the thread's time: the rest of the machine computes that answer.
 *
 * Pure: time is an argument, in microseconds of any clock that does not go back.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fairq_config {
    uint64_t burst;       /* us of debt above which a user is heavy */
    uint64_t heavy_burst; /* us that all heavy users' debt is at most: it limits how long they wait */
    unsigned user_share;  /* a user's debt gets less by one us in so many, */
    unsigned heavy_share; /* that of all heavy users by one in so many */
};

/* One piece of work, or a connection that has some; zero at first. */
struct fairq_entry {
    struct fairq_entry *next;
    struct fairq_user *user; /* NULL: it is not in the queue */
};

/* One user; zero at first. */
struct fairq_user {
    uint64_t live; /* requests that are not answered */
    /* the queue's own */
    struct fairq_entry *first, *last;
    struct fairq_user *next; /* in the line of users */
    bool queued, blocked;
    uint64_t debt, debt_at;      /* us, as of then */
    uint64_t spent;              /* us, ever; for status */
    uint64_t waited, waits_from; /* us that the user had work and was throttled; since when, 0: is not */
};

/* A line of users. */
struct fairq_line {
    struct fairq_user *first, *last;
};

/* Zero but for @config at first. */
struct fairq {
    struct fairq_config config;
    /* Does nobody but @u wait for an answer? NULL: fairq_live tells. */
    bool (*alone)(const struct fairq *q, const struct fairq_user *u);
    bool no_heavy; /* serve light users only */
    /* the queue's own */
    struct fairq_line light, heavy;
    uint64_t live;          /* of all users */
    uint64_t debt, debt_at; /* of all heavy users together */
};

/* @x, of user @u, has work. It may be in the queue already. */
void fairq_add(struct fairq *q, struct fairq_user *u, struct fairq_entry *x, uint64_t now);
/* It has none, or is gone. It may be in no queue. */
void fairq_remove(struct fairq *q, struct fairq_entry *x);

/* @u is not served, whatever there is to do; or is again. */
void fairq_block(struct fairq *q, struct fairq_user *u, bool block, uint64_t now);

/* Requests of @u were begun (or have ended: negative). */
void fairq_live(struct fairq *q, struct fairq_user *u, int n);

/* The entry whose turn it is, out of the queue; the caller serves it and adds it again if it has more. NULL: nobody has
 * work, or those who have are throttled: for *wait_usec then (0: nobody has). */
struct fairq_entry *fairq_next(struct fairq *q, uint64_t now, uint64_t *wait_usec);

/* Is @u heavy now? */
bool fairq_is_heavy(const struct fairq *q, const struct fairq_user *u, uint64_t now);

/* @usec were spent on @u. */
void fairq_charge(struct fairq *q, struct fairq_user *u, uint64_t usec, uint64_t now);

/* Somebody has work. */
bool fairq_any(const struct fairq *q);
