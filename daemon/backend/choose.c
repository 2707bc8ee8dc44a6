/* SPDX-License-Identifier: MIT */
/* The choice of a backend by name. */
#include "daemon/model/backend.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <string.h>

#define NO_CUDA "device 'cuda': this program is built without CUDA"

static int refuse(const char *name)
{
    char names[128] = "";
    size_t n = 0;
    for (size_t i = 0; backend_types[i] && n < sizeof(names); i++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "", backend_types[i]->name);
    return error_say(-EINVAL, "backend '%s' is unknown; known: %s", name, names);
}

int backend_find(const struct backend_type **out, const char *name)
{
    for (size_t i = 0; backend_types[i]; i++)
        if (!name || !strcmp(backend_types[i]->name, name)) {
            *out = backend_types[i];
            return 0;
        }
    return refuse(name ? name : "");
}

/* With the device's backend if this program, the machine and the model allow it, else with the CPU's. */
static int new_auto(struct backend **out, const struct gguf *g, const struct backend_config *c)
{
    for (size_t i = 1; backend_types[0] && backend_types[i]; i++) {
        int r = backend_types[i]->new (out, g, c);
        if (!r || (r != -ENODEV && r != -EOPNOTSUPP && r != -ENOMEM && r != -EIO)) return r;
        log_info("the CPU computes: %s", error_text(r));
        error_forget();
    }
    return backend_types[0]->new (out, g, c);
}

static bool same_kind(const struct backend_type *t, enum device_kind kind)
{
    return kind == DEVICE_AUTO || (kind == DEVICE_CUDA && !strcmp(t->name, "cuda"));
}

int backend_probe(const struct device_choice *c, bool start)
{
    int r = c->kind == DEVICE_CPU ? 0 : error_say(-ENODEV, NO_CUDA);
    for (size_t i = 1; r && backend_types[0] && backend_types[i]; i++)
        if (same_kind(backend_types[i], c->kind)) r = backend_types[i]->probe ? backend_types[i]->probe(c, start) : 0;
    return r;
}

int backend_new(struct backend **out, const struct gguf *g, const struct backend_config *c)
{
    const struct backend_type *type;
    const bool cuda = !c->backend && c->device.kind == DEVICE_CUDA;
    if (!c->backend && c->device.kind == DEVICE_AUTO && backend_types[0]) return new_auto(out, g, c);
    int r = backend_find(&type, cuda ? "cuda" : c->backend);
    if (r && cuda) return error_say(-EINVAL, NO_CUDA);
    return r ? r : type->new (out, g, c);
}

int backend_check(const char *name, const struct gguf *g, const struct hparams *h, size_t *bytes)
{
    const struct backend_type *type;
    int r = backend_find(&type, name);
    return r ? r : type->check(g, h, bytes);
}

int backend_is_packed(const char *name, const struct gguf *g, const char *packed_dir)
{
    const struct backend_type *type;
    int r = backend_find(&type, name);
    return r < 0 ? r : type->is_packed(g, packed_dir);
}
