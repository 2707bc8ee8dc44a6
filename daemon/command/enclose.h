/* SPDX-License-Identifier: MIT */
#pragma once
/* Which files stay open to a daemon that serves as its options say: every file that it opens after its start. */
#include "daemon/config.h"
#include "daemon/io/confine.h"
#include "daemon/io/listener.h"

struct enclosure {
    struct confine confine; /* refers to the rest, so this struct stays where it is */
    struct confine_path paths[9];
    char *config, *file, *beside, *socket;
};

/* After options_resolve; makes the directories that the engine would make. @o and @l outlive it. On no memory it is
 * smaller than it might be. */
void enclosure_init(struct enclosure *x, const struct options *o, const struct listener *l);
void enclosure_fini(struct enclosure *x);
