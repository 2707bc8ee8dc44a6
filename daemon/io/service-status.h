/* SPDX-License-Identifier: MIT */
#pragma once
/* What the main thread adds to a status: connections, and what users make it hold and do. */
#include "daemon/io/account.h"
#include "libcommon/proto.h"

/* Add to @status, a JSON object as text, what @uid may know: root and the daemon's own uid of everybody, others of
 * themselves. 0; -ENOMEM, and it is as it was. */
int service_status_add(struct proto_text *status, const struct accounts *a, uid_t uid);
