/* SPDX-License-Identifier: MIT */
#include "daemon/command/serve-sandbox.h"
#include "daemon/io/sandbox-calls.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The directory of @path. NULL: @path is NULL, or no memory. */
static char *parent_of(const char *path)
{
    if (!path) return NULL;
    const char *slash = strrchr(path, '/');
    if (!slash) return strdup(".");
    return slash > path ? strndup(path, (size_t)(slash - path)) : strdup("/");
}

/* The sandbox closes a directory that does not exist when it starts. So this function makes the directories that the
 * engine would make, and @config, because a file may be put there later. The engine tries again and reports a failure.
 */
static void make_dirs(const struct engine_config *e, const char *config)
{
    const char *const dirs[] = {e->state_dir, e->packed.dir, e->cache_bytes ? e->cache_dir : NULL, config};
    for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
        int r = dirs[i] ? paths_make(dirs[i]) : 0;
        if (r < 0) log_debug("%s", error_text(r));
    }
}

#define THREADS "/proc/self/task"

/* The driver of a GPU opens its devices again and again. Returns how many are added behind the @n paths. */
static size_t add_devices(struct serve_sandbox *x, size_t n)
{
    size_t i;
    if (glob("/dev/nvidia*", 0, NULL, &x->devices)) log_debug("no device /dev/nvidia* is found");
    for (i = 0; i < x->devices.gl_pathc && i + 1 < SERVE_SANDBOX_DEVICES; i++)
        x->paths[n + i] = (struct sandbox_path){x->devices.gl_pathv[i], SANDBOX_DEVICE};
    /* It gives its threads names, and fails where it cannot. An open directory remains the one that is meant. */
    x->threads = open(THREADS, O_PATH | O_DIRECTORY | O_CLOEXEC);
    x->paths[n + i] = (struct sandbox_path){THREADS, SANDBOX_DEVICE};
    return i + 1;
}

void serve_sandbox_init(struct serve_sandbox *x, const struct options *o, const struct listener *l)
{
    const struct engine_config *e = &o->engine;
    *x = (struct serve_sandbox){
        .beside = parent_of(e->state_dir), .socket = l->linked ? parent_of(l->path) : NULL, .threads = -1};
    int r = paths_dir(PATHS_CONFIG, o->system, &x->config);
    if (r < 0) log_debug("%s", error_text(r));
    /* The file is listed in addition to its directory, because it may be a link to another directory. */
    if (x->config && asprintf(&x->file, "%s/hobd.conf", x->config) < 0) x->file = NULL;
    const struct sandbox_path paths[] = {
        {e->model_path, SANDBOX_READ},   {e->prefixes_dir, SANDBOX_READ},      {x->config, SANDBOX_READ},
        {x->file, SANDBOX_READ},         {e->state_dir, SANDBOX_WRITE},        {e->cache_dir, SANDBOX_WRITE},
        {e->packed.dir, SANDBOX_WRITE},  {x->socket, SANDBOX_REMOVE},          {x->beside, SANDBOX_LIST},
        {e->media.mmproj, SANDBOX_READ}, {e->speculation.draft, SANDBOX_READ},
    };
    _Static_assert(sizeof(paths) == SERVE_SANDBOX_OWN * sizeof(*paths), "one entry for each path");
    memcpy(x->paths, paths, sizeof(paths));
    x->n_parts = model_parts_list(x->parts, MODEL_PARTS_MAX, e->model_path);
    if (e->speculation.draft)
        x->n_parts += model_parts_list(x->parts + x->n_parts, MODEL_PARTS_MAX - x->n_parts, e->speculation.draft);
    for (size_t i = 0; i < x->n_parts; i++)
        x->paths[SERVE_SANDBOX_OWN + i] = (struct sandbox_path){x->parts[i], SANDBOX_READ};
    size_t n = SERVE_SANDBOX_OWN + x->n_parts;
    for (size_t i = 0; i < e->adapters.n; i++)
        x->paths[n++] = (struct sandbox_path){e->adapters.list[i].path, SANDBOX_READ};
    const bool device = e->device.kind != DEVICE_CPU;
    if (device) n += add_devices(x, n);
    x->sandbox =
        (struct sandbox){.paths = x->paths, .n_paths = n, .calls = device ? sandbox_calls_device : sandbox_calls};
    make_dirs(e, x->config);
}

void serve_sandbox_fini(struct serve_sandbox *x)
{
    free(x->config);
    free(x->file);
    free(x->beside);
    free(x->socket);
    for (size_t i = 0; i < x->n_parts; i++) free(x->parts[i]);
    globfree(&x->devices);
    if (x->threads >= 0) close(x->threads);
}
