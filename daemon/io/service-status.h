/* SPDX-License-Identifier: MIT */
#pragma once
/* The main thread's part of a status: connections, and the resources that their users use. */
#include "daemon/io/account.h"
#include "libcommon/proto.h"

/* Add the keys to @status, a JSON object as text: all users for root and the daemon's own uid, else only @uid. 0; or
 * -ENOMEM, and @status is unchanged. */
int service_status_add(struct proto_text *status, const struct accounts *a, uid_t uid);
