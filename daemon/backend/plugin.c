/* SPDX-License-Identifier: MIT */
/* The CUDA backend of the program: that of the library hobd-cuda.so, which is loaded when it is first asked for. */
#include "daemon/backend/plugin.h"
#include "daemon/backend/backends.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "hobd-cuda.so"

/* The library beside this program, else that of the installation. */
static int find(char **out)
{
    char self[PATH_MAX];
    const char *const dirs[] = {paths_program_dir(self) ? self : HOB_PLUGINS, HOB_PLUGINS};
    for (int i = 0; i < 2; i++) {
        if (asprintf(out, "%s/" LIBRARY, dirs[i]) < 0) return error_say(-ENOMEM, "no memory for a path");
        if (access(*out, R_OK) == 0) return 0;
        free(steal(*out));
    }
    return error_say(-ENODEV, "device 'cuda': %s/" LIBRARY " (package hob-cuda) is not installed", HOB_PLUGINS);
}

static int check_plugin(const struct backend_plugin *p, const char *path)
{
    if (p && !strcmp(p->version, HOB_VERSION) && p->state == backend_cpu_state) return 0;
    return error_say(-ENODEV, "device 'cuda': %s is of another version of hobd", path);
}

/* It stays loaded. Callers come one after the other. */
static int load(const struct backend_type **out)
{
    static const struct backend_plugin *plugin;
    if (!plugin) {
        _cleanup_(freep) char *path = NULL;
        int r = find(&path);
        if (r < 0) return r;
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) return error_say(-ENODEV, "device 'cuda': %s", dlerror());
        const struct backend_plugin *p = dlsym(library, BACKEND_PLUGIN);
        r = check_plugin(p, path);
        if (r < 0) {
            dlclose(library);
            return r;
        }
        plugin = p;
    }
    *out = plugin->type;
    return 0;
}

static int plugin_new(struct backend **out, const struct gguf *g, const struct backend_config *c)
{
    const struct backend_type *type = NULL;
    int r = load(&type);
    return r ? r : type->new (out, g, c);
}

static int plugin_check(const struct gguf *g, const struct hparams *h, size_t *bytes)
{
    const struct backend_type *type = NULL;
    int r = load(&type);
    return r ? r : type->check(g, h, bytes);
}

static int plugin_is_packed(const struct gguf *g, const char *packed_dir)
{
    const struct backend_type *type = NULL;
    int r = load(&type);
    return r ? r : type->is_packed(g, packed_dir);
}

static int plugin_probe(const struct device_choice *c, bool start)
{
    const struct backend_type *type = NULL;
    int r = load(&type);
    return r ? r : type->probe(c, start);
}

const struct backend_type backend_cuda_plugin = {
    .name = "cuda", .new = plugin_new, .check = plugin_check, .is_packed = plugin_is_packed, .probe = plugin_probe};
