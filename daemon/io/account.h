/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Resources that each uid uses: connections; bytes of unread input, parsed requests and unsent output; time on the main
 * thread. A limit of a uid refuses that uid only. A user whom a gateway names (request/named-users.h) has an account
 * like a uid.
 *
 * Connections and bytes of all uids together are limited too. A uid may hold at most as much as it leaves free for the
 * others. So one uid gets half of the whole, two get a third each, and a new uid always gets some.
 */
#include "daemon/jobs/fair-queue.h"
#include "libcommon/proto.h"
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

/* Live requests of a uid that are neither generated nor queued (tokenize, session.*), and the connections whose next
 * one is held until fewer are live. Private to conn*.c. */
struct account_jobs {
    size_t live;
    struct conn *first, *last; /* with a held request, linked by next_held */
};

/* Counts since the account was opened, for status. */
struct account_counts {
    uint64_t messages; /* handled */
    uint64_t errors;   /* messages that broke the protocol or its limits */
    uint64_t refused;  /* connections over a limit */
};

/* Copies @l. 0 or -ENOMEM. */
int accounts_new(struct accounts **out, const struct account_limits *l);
/* All connections must have been closed. NULL ok, returns NULL. */
struct accounts *accounts_free(struct accounts *a);

/* Count one more connection of @uid. On 0 the caller ends it with account_close. -EBUSY at a limit, with a message;
 * -EAGAIN, without a message: the uid makes more than ACCOUNT_RATE new ones a second, after a burst; -ENOMEM.
 * @now_usec: any monotonic clock. */
#define ACCOUNT_BURST 1024
#define ACCOUNT_RATE  200
int account_open(struct accounts *a, uid_t uid, uint64_t now_usec, struct account **out);
/* Move a connection, and nothing else, from its gateway's account *at to that of the gateway's user @name, whose number
 * is @number. 0: *at is that account; -EBUSY or -ENOMEM as of account_open, -EBUSY also for too many new ones. In any
 * case the connection no longer counts for the rate of new ones of the gateway. The charge of the connection is 0. */
int account_move(struct account **at, uid_t number, const char *name, uint64_t now_usec);
/* One connection less. The caller has set its charge to 0 before. NULL ok, returns NULL. */
struct account *account_close(struct account *x);

/*
 * Change the charge of one holder from *charged to @bytes. 0; or -EDQUOT with a message when @bytes is more than before
 * and over a limit: *charged stays. A smaller charge never fails.
 */
int account_charge(struct account *x, uint64_t *charged, uint64_t bytes);

uid_t account_uid(const struct account *x);
uint64_t account_bytes(const struct account *x);
/* Parts of the account; valid as long as it. */
struct account_counts *account_counts(struct account *x);
struct fairq_user *account_queue(struct account *x);
struct account_jobs *account_jobs(struct account *x);

/* --- for status --- */

struct account_info {
    uid_t uid;        /* the number of a named user */
    uid_t gateway;    /* of a named user */
    const char *name; /* of a named user, else "" */
    size_t connections;
    uint64_t bytes;
    struct account_counts counts;
    const struct fairq_user *queue;
};

/* Sums over all uids, and the limits. */
void accounts_sum(const struct accounts *a, size_t *connections, uint64_t *bytes, struct account_limits *limits);
/* Iterate over the accounts: @at is NULL first, then the last result. NULL: no more accounts. */
const struct account *accounts_next(const struct accounts *a, const struct account *at, struct account_info *out);
