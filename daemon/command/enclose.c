/* SPDX-License-Identifier: MIT */
#include "daemon/command/enclose.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <stdlib.h>
#include <string.h>

/* The directory that @path (NULL: none) is in. NULL: none, or no memory. */
static char *parent_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;

    if (!path) return NULL;
    if (!slash) return strdup(".");
    return slash > path ? strndup(path, (size_t)(slash - path)) : strdup("/");
}

/* A directory that is not there cannot be opened later either, so those that the engine would make are made now, and
 * @config, where a file may come to be. When that fails, it is the engine that finds out once more and says what it
 * means. */
static void make_dirs(const struct engine_config *e, const char *config)
{
    const char *const dirs[] = {e->state_dir, e->packed_dir, e->cache_bytes ? e->cache_dir : NULL, config};

    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        int r = dirs[i] ? paths_make(dirs[i]) : 0;

        if (r < 0) log_debug("%s", error_text(r));
    }
}

void enclosure_init(struct enclosure *x, const struct options *o, const struct listener *l)
{
    const struct engine_config *e = &o->engine;
    int r;

    *x = (struct enclosure){.beside = parent_of(e->state_dir), .socket = l->linked ? parent_of(l->path) : NULL};
    r = paths_dir(PATHS_CONFIG, o->system, &x->config);
    if (r < 0) log_debug("%s", error_text(r));
    /* The file apart from its directory, in case it is a link that leads elsewhere. */
    if (x->config && asprintf(&x->file, "%s/hobd.conf", x->config) < 0) x->file = NULL;
    const struct confine_path paths[] = {
        {e->model_path, CONFINE_READ},  {e->prefixes_dir, CONFINE_READ}, {x->config, CONFINE_READ},
        {x->file, CONFINE_READ},        {e->state_dir, CONFINE_WRITE},   {e->cache_dir, CONFINE_WRITE},
        {e->packed_dir, CONFINE_WRITE}, {x->socket, CONFINE_REMOVE},     {x->beside, CONFINE_LIST},
    };

    _Static_assert(sizeof paths == sizeof x->paths, "as many as there are");
    memcpy(x->paths, paths, sizeof paths);
    x->confine = (struct confine){.paths = x->paths, .n_paths = sizeof paths / sizeof *paths};
    make_dirs(e, x->config);
}

void enclosure_fini(struct enclosure *x)
{
    free(x->config);
    free(x->file);
    free(x->beside);
    free(x->socket);
}
