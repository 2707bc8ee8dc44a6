/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What each uid makes the daemon hold and do: connections; bytes of unread input, parsed requests and unsent output;
 * time on the main thread. At a limit the uid that reached it is refused, nobody else.
 *
 * Connections and bytes of all uids together are limited too. A uid may hold at most as much as is left over for the
 * others. So one uid gets half of the whole, two get a third each, and there is always room for a uid that has nothing.
 */
#include "daemon/jobs/fair-queue.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct accounts;
struct account;

struct account_limits {
    size_t connections, uid_connections; /* of all uids together; of one */
    uint64_t bytes, uid_bytes;           /* likewise */
};

struct conn;

/* Requests of a uid that are neither generated nor queued (tokenize, session.*), and the connections whose next one
 * waits until there are fewer. conn-read.c's own. */
struct account_jobs {
    size_t live;
    struct conn *first, *last; /* that wait, linked by next_held */
};

/* Counts since the account was opened, for status. */
struct account_counts {
    uint64_t messages; /* that were handled */
    uint64_t errors;   /* of these, such that broke the protocol or its limits */
    uint64_t refused;  /* connections over a limit */
};

/* Copies @l. 0 or -ENOMEM. */
int accounts_new(struct accounts **out, const struct account_limits *l);
/* All connections must have been closed. NULL ok, returns NULL. */
struct accounts *accounts_free(struct accounts *a);

/* Count one more connection of @uid. On 0 the caller ends it with account_close. -EBUSY at a limit, which the error
 * message names; -EAGAIN: the uid makes more than ACCOUNT_RATE new ones a second, after a burst; -ENOMEM. @now_usec: of
 * any clock that does not go back. */
#define ACCOUNT_BURST 1024
#define ACCOUNT_RATE  200
int account_open(struct accounts *a, uid_t uid, uint64_t now_usec, struct account **out);
/* One connection less; what it had charged must have been given back. NULL ok, returns NULL. */
struct account *account_close(struct account *x);

/*
 * *charged, what one holder has charged so far, becomes @bytes. 0; or -EDQUOT with a message (*charged stays) when that
 * is more than before and over a limit. Less never fails.
 */
int account_charge(struct account *x, uint64_t *charged, uint64_t bytes);

uid_t account_uid(const struct account *x);
uint64_t account_bytes(const struct account *x);
/* The account's own; valid as long as the account. */
struct account_counts *account_counts(struct account *x);
struct fairq_user *account_queue(struct account *x);
struct account_jobs *account_jobs(struct account *x);

/* --- for status --- */

struct account_info {
    uid_t uid;
    size_t connections;
    uint64_t bytes;
    struct account_counts counts;
    const struct fairq_user *queue;
};

/* Sums over all uids, and the limits. */
void accounts_sum(const struct accounts *a, size_t *connections, uint64_t *bytes, struct account_limits *limits);
/* The accounts one after the other: @at is NULL first, and what this returned last then; NULL: there are no more. */
const struct account *accounts_next(const struct accounts *a, const struct account *at, struct account_info *out);
