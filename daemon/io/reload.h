/* SPDX-License-Identifier: MIT */
#pragma once
/* SIGHUP: the daemon reads its configuration again. */
#include "daemon/io/notify.h"
#include "daemon/io/server.h"

/* Read the configuration by @c->reload, which changes *c, give @e its part, and say in the log what was taken over and
 * what waits for a restart. @n: the service manager is told; NULL: it is not (the daemon is not ready). */
void reload(const struct server_config *c, struct engine *e, struct notify *n);
