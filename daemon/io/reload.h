/* SPDX-License-Identifier: MIT */
#pragma once
/* SIGHUP: the daemon reads its configuration again. */
#include "daemon/io/notify.h"
#include "daemon/io/server.h"

/* Read the configuration by @c->reload, which changes *c, pass the engine's settings to @e, and log the applied
 * settings and those that need a restart. @n: notify the service manager; NULL: do not (the daemon is not ready). */
void reload(const struct server_config *c, struct engine *e, struct notify *n);
