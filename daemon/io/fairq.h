/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Whose input the main thread handles next. Users take turns; a user's connections take turns within the user's.
 *
 * A user who keeps the thread busy is throttled, but only in favour of others. Each user has a debt: the time that the
 * thread spent on the user's input, less a tenth of the time that has passed. A user whose debt is over FAIRQ_BURST is
 * heavy. Heavy users are served when no other user has input, and together they get at most a fifth of the thread's
 * time while somebody else has a request that is not answered: the rest of the machine computes that answer.
 *
 * Pure: time is an argument, in microseconds of any clock that does not go back.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAIRQ_BURST 20000 /* us of debt */

/* One connection's place in the line; zero at first. */
struct fairq_entry {
    struct fairq_entry *next;
    struct fairq_user *user; /* NULL: it is in no line */
};

/* One user; zero at first. */
struct fairq_user {
    uint64_t live; /* requests that are not answered */
    /* the line's own */
    struct fairq_entry *first, *last;  /* connections with input */
    struct fairq_user *next;    /* in the line of users */
    bool queued;
    uint64_t debt, debt_at;     /* us, as of then */
    uint64_t spent;             /* us, ever; for status */
    uint64_t waited, waits_from; /* us that the user had input and was throttled; 0: is not */
};

/* A line of users. */
struct fairq_line {
    struct fairq_user *first, *last;
};

/* Zero at first. */
struct fairq {
    struct fairq_line light, heavy;
    uint64_t live;          /* of all users */
    uint64_t debt, debt_at; /* of all heavy users together */
};

/* @t, of user @u, has input. It may be in line already. */
void fairq_add(struct fairq *s, struct fairq_user *u, struct fairq_entry *t, uint64_t now);
/* It has none, or is gone. It may be in no line. */
void fairq_remove(struct fairq *s, struct fairq_entry *t);

/* Requests of @u were begun (or have ended: negative). */
void fairq_live(struct fairq *s, struct fairq_user *u, int n);

/* The connection whose turn it is, out of the line; the caller serves it and adds it again if it has more. NULL: nobody
 * has input, or those who have are throttled: for *wait_usec then (0: nobody has). */
struct fairq_entry *fairq_next(struct fairq *s, uint64_t now, uint64_t *wait_usec);

/* The thread has spent @usec on @u. */
void fairq_charge(struct fairq *s, struct fairq_user *u, uint64_t usec, uint64_t now);

/* Some connection is in line. */
bool fairq_any(const struct fairq *s);
