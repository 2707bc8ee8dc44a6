/* SPDX-License-Identifier: MIT */
#pragma once
/* The files that the sandbox of serve leaves open: each file that hobd opens after the start. */
#include "daemon/io/listener.h"
#include "daemon/serve-adapters.h"
#include "daemon/serve-config.h"
#include "libcommon/model-parts.h"
#include "libcommon/sandbox.h"
#include <glob.h>

enum { SERVE_SANDBOX_OWN = 11, SERVE_SANDBOX_DEVICES = 64 };

struct serve_sandbox {
    struct sandbox sandbox; /* points into this struct, which must not move */
    struct sandbox_path paths[SERVE_SANDBOX_OWN + MODEL_PARTS_MAX + SERVE_ADAPTERS_MAX + SERVE_SANDBOX_DEVICES];
    char *config, *file, *beside, *socket;
    char *parts[MODEL_PARTS_MAX]; /* [n_parts] the other files of a split model or draft model */
    size_t n_parts;
    glob_t devices; /* of a GPU, and */
    int threads;    /* the directory of this process's, for its driver; or -1 */
};

/* Call this after options_resolve. It makes the directories that the engine would make. @o and @l must outlive @x.
 * Without memory, @x leaves fewer files open. */
void serve_sandbox_init(struct serve_sandbox *x, const struct options *o, const struct listener *l);
void serve_sandbox_fini(struct serve_sandbox *x);
