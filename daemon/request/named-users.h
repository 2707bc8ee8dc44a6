/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Users whom a gateway names: a connection of a trusted uid may say in its hello which of the gateway's users it asks
 * for. Each pair of the gateway's uid and a name gets a number, which the daemon uses as the uid of that user. So
 * sessions, cached blocks, shares and limits belong to a named user as they belong to a uid. The numbers are from a
 * range that systems do not give to accounts.
 *
 * Sessions and blocks on disk belong to the numbers. So the file DIR/users keeps them: each line is "NUMBER UID NAME",
 * and lines are only added.
 */
#include "libcommon/proto.h"
#include <sys/types.h>

#define NAMED_USERS_FIRST 0x80000000u /* the least number */
#define NAMED_USERS_MAX   1024        /* of one gateway */

struct named_users;

/* @dir: of the file, copied; NULL: the numbers are kept in memory only. The file is read when it is needed. 0 or
 * -ENOMEM. */
int named_users_new(struct named_users **out, const char *dir);
struct named_users *named_users_free(struct named_users *u); /* NULL ok, returns NULL */

/* The functions below may be called by any thread. */

/* The number of the user @name of the gateway @gateway into *out; a new user gets a new number, which is on disk when
 * this returns. 0; -EINVAL: the name is not valid; -EDQUOT: the gateway has too many users; -EBADMSG: the file is
 * malformed; else -errno; sets the error message. */
int named_users_number(struct named_users *u, uid_t gateway, const struct proto_text *name, uid_t *out);

/* The gateway and the name of the user with @number, which this process has seen. False: no such user. */
bool named_users_find(struct named_users *u, uid_t number, uid_t *gateway, char name[static PROTO_USER_MAX + 1]);
