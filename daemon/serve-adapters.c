/* SPDX-License-Identifier: MIT */
#include "daemon/serve-adapters.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 96

static const char suffix[] = ".gguf";

/* 0 or -EINVAL. */
static int check_name(const char *name, size_t len)
{
    bool plain = utf8_check(name, len) == len;
    for (size_t i = 0; i < len; i++)
        plain &= (unsigned char)name[i] >= ' ' && name[i] != 0x7f && !strchr("=/", name[i]);
    if (len && len <= NAME_MAX_BYTES && plain && (len != 4 || memcmp(name, "none", 4) != 0)) return 0;
    return error_say(-EINVAL,
                     "'%.*s' is no name of an adapter: 1 to %d bytes without '=', '/' and control characters, and "
                     "not none",
                     (int)(len < 64 ? len : 64), name, NAME_MAX_BYTES);
}

int serve_adapters_add(char **list, const char *value)
{
    struct buf lines = BUF_INIT;
    const char *eq = strchr(value, '=');
    size_t len;
    if (!eq || !eq[1] || strchr(value, '\n')) return error_say(-EINVAL, "'%.64s' is not NAME=FILE", value);
    int r = check_name(value, (size_t)(eq - value));
    for (const char *at = *list, *end; r == 0 && at && *at; at = end + 1) {
        end = strchr(at, '\n');
        if (strncmp(at, value, (size_t)(eq - value) + 1) != 0) r = buf_append(&lines, at, (size_t)(end + 1 - at));
    }
    if (r == 0) r = buf_printf(&lines, "%s\n", value);
    if (r < 0) {
        buf_fini(&lines);
        return r;
    }
    free(*list);
    *list = buf_steal(&lines, &len);
    return 0;
}

static bool has(const struct adapter_config *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (!strcmp(c->list[i].name, name)) return true;
    return false;
}

/* Takes @name and @path, which may be NULL without memory. */
static int push(struct adapter_config *c, char *name, char *path, bool required)
{
    void *more = c->n < SERVE_ADAPTERS_MAX ? reallocarray(c->list, c->n + 1, sizeof(*c->list)) : NULL;
    if (more) c->list = more;
    if (more && name && path) {
        c->list[c->n].name = name;
        c->list[c->n].path = path;
        c->list[c->n++].required = required;
        return 0;
    }
    free(name);
    free(path);
    if (c->n < SERVE_ADAPTERS_MAX) return error_origin(-ENOMEM);
    return error_say(-E2BIG, "a model has at most %d adapters", SERVE_ADAPTERS_MAX);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_file(const struct dirent *e)
{
    const size_t n = strlen(e->d_name), end = sizeof(suffix) - 1;
    return *e->d_name != '.' && n > end && !strcmp(e->d_name + n - end, suffix);
}

static int scan(struct adapter_config *c, const char *folder)
{
    struct dirent **files = NULL;
    int n = scandir(folder, &files, is_file, by_name), r = 0;
    for (int i = 0; i < n; i++) {
        _cleanup_(freep) char *name = strndup(files[i]->d_name, strlen(files[i]->d_name) - (sizeof(suffix) - 1));
        char *path = NULL;
        if (r == 0 && !name) r = error_origin(-ENOMEM);
        if (r == 0 && check_name(name, strlen(name)) == 0 && !has(c, name)) {
            if (asprintf(&path, "%s/%s", folder, files[i]->d_name) < 0) path = NULL;
            r = push(c, steal(name), path, false);
        }
        free(files[i]);
    }
    free(files);
    return r;
}

int serve_adapters_resolve(struct adapter_config *c, const char *list, const char *model_path)
{
    const size_t len = strlen(model_path), end = sizeof(suffix) - 1;
    _cleanup_(freep) char *folder = NULL;
    int r = 0;
    for (const char *at = list, *line; r == 0 && at && *at; at = line + 1) {
        const char *eq = strchr(at, '=');
        line = strchr(at, '\n');
        r = push(c, strndup(at, (size_t)(eq - at)), strndup(eq + 1, (size_t)(line - eq - 1)), true);
    }
    if (r < 0 || len <= end || strcmp(model_path + len - end, suffix) != 0) return r;
    if (asprintf(&folder, "%.*s.adapters", (int)(len - end), model_path) < 0) {
        folder = NULL;
        return error_origin(-ENOMEM);
    }
    return scan(c, folder);
}

void serve_adapters_fini(struct adapter_config *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->list[i].name);
        free(c->list[i].path);
    }
    free(c->list);
    *c = (struct adapter_config){0};
}
