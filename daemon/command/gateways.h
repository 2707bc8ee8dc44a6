/* SPDX-License-Identifier: MIT */
#pragma once
/* The users who may name users of their own: 'gateways' of hobd.conf. */
#include "daemon/serve-config.h"
#include <sys/types.h>

#define GATEWAY_USER "hob-http" /* the default of a daemon of the system, if it exists */

/* Find the uids of the list in @o into *uids, [*n], which the caller frees. 0; -EINVAL: the system has no such user;
 * -ENOMEM; sets the error message. */
int gateways_find(const struct options *o, uid_t **uids, size_t *n);
