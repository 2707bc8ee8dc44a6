/* SPDX-License-Identifier: MIT */
/* The choice of a backend by name. */
#include "daemon/model/backend.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <string.h>

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

int backend_new(struct backend **out, const struct gguf *g, const struct backend_config *c)
{
    const struct backend_type *type;
    int r = backend_find(&type, c->backend);
    return r ? r : type->new (out, g, c);
}

int backend_check(const char *name, const struct gguf *g, const struct hparams *h, size_t *bytes)
{
    const struct backend_type *type;
    int r = backend_find(&type, name);
    return r ? r : type->check(g, h, bytes);
}

bool backend_is_packed(const char *name, const struct gguf *g, const char *packed_dir)
{
    const struct backend_type *type;
    return backend_find(&type, name) == 0 && type->is_packed(g, packed_dir);
}
