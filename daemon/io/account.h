/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What each uid makes the daemon hold: connections, and bytes of unread input, parsed requests and unsent output. At
 * the limit it is that uid which is refused, nobody else.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct accounts;
struct account;

/* Limits: @connections in total, @per_uid of one uid, @bytes of one uid. 0 or -ENOMEM. */
int accounts_new(struct accounts **out, size_t connections, size_t per_uid, uint64_t bytes);
/* All accounts must have been closed. NULL ok, returns NULL. */
struct accounts *accounts_free(struct accounts *a);

/* Count one more connection of @uid. On 0 the caller ends it with account_close. -EBUSY with a sentence at a limit;
 * -ENOMEM. */
int account_open(struct accounts *a, uid_t uid, struct account **out);
/* One connection less; what it had charged must have been given back. NULL ok, returns NULL. */
struct account *account_close(struct account *x);

/*
 * *charged, what one holder has charged so far, becomes @bytes. 0, or -EDQUOT with a sentence (*charged stays) when
 * that is more than before and over the limit. Less never fails.
 */
int account_charge(struct account *x, uint64_t *charged, uint64_t bytes);

uint64_t account_bytes(const struct account *x);
