/* SPDX-License-Identifier: MIT */
#pragma once
/* The files that the sandbox of serve leaves open: each file that hobd opens after the start. */
#include "daemon/io/listener.h"
#include "daemon/serve-config.h"
#include "libcommon/sandbox.h"

struct serve_sandbox {
    struct sandbox sandbox; /* points into this struct, which must not move */
    struct sandbox_path paths[10];
    char *config, *file, *beside, *socket;
};

/* Call this after options_resolve. It makes the directories that the engine would make. @o and @l must outlive @x.
 * Without memory, @x leaves fewer files open. */
void serve_sandbox_init(struct serve_sandbox *x, const struct options *o, const struct listener *l);
void serve_sandbox_fini(struct serve_sandbox *x);
