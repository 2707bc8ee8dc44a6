/* SPDX-License-Identifier: MIT */
#include "client/http/model-list.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include "libcommon/paths.h"
#include "libcommon/utf8.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void closedirp(DIR **d)
{
    if (*d) closedir(*d);
}

/* The length of @file without @suffix; 0: it does not end with it, or is hidden. */
static size_t stem(const char *file, const char *suffix)
{
    size_t n = strlen(file), s = strlen(suffix);
    return *file != '.' && n > s && strcmp(file + n - s, suffix) == 0 ? n - s : 0;
}

char *model_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t n = stem(base, ".sock");
    return n ? strndup(base, n) : strdup(base);
}

/* Add the model @name to the object @found, whose keys are names. A name that is not UTF-8 cannot be in JSON. */
static void found_add(json_t *found, const char *name, int64_t created)
{
    const size_t n = strlen(name);
    if (utf8_check(name, n) != n || json_object_get(found, name)) return;
    json_whole_set(found, name,
                   json_pack("{s:s, s:s, s:I, s:s}", "id", name, "object", "model", "created", (json_int_t)created,
                             "owned_by", "hob"));
}

/* 0; -ENOMEM. A folder that cannot be read has no models. */
static int scan(json_t *found, const char *dir, const char *suffix)
{
    _cleanup_(closedirp) DIR *d = opendir(dir);
    if (!d && errno == ENOMEM) return -ENOMEM;
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = stem(e->d_name, ".mmproj.gguf") ? 0 : stem(e->d_name, suffix); /* an image encoder is no model */
        _cleanup_(freep) char *name = n ? strndup(e->d_name, n) : NULL;
        struct stat st;
        if (n && !name) return -ENOMEM;
        if (name && fstatat(dirfd(d), e->d_name, &st, 0) == 0) found_add(found, name, st.st_mtime);
    }
    return 0;
}

static int scan_places(json_t *found)
{
    static const struct {
        enum paths_kind kind;
        const char *suffix;
    } places[] = {{PATHS_RUNTIME, ".sock"}, {PATHS_MODELS, ".gguf"}};
    for (unsigned i = 0; i < 4; i++) {
        _cleanup_(freep) char *dir = NULL;
        int r = paths_dir(places[i / 2].kind, i % 2, &dir);
        if (r == 0) r = scan(found, dir, places[i / 2].suffix);
        if (r == -ENOMEM) return r;
    }
    return scan(found, "/usr/share/hob/models", ".gguf");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The values of the object @found as an array, sorted by their keys. */
static json_t *sorted(json_t *found)
{
    size_t n = 0;
    _cleanup_(freep) const char **names = calloc(json_object_size(found) + 1, sizeof(*names));
    json_t *list = json_array(), *value;
    const char *name;
    if (!names || !list) {
        json_decref(list);
        return NULL;
    }
    json_object_foreach(found, name, value) names[n++] = name;
    qsort(names, n, sizeof(*names), by_name);
    for (size_t i = 0; i < n; i++) json_whole_append(list, json_incref(json_object_get(found, names[i])));
    return list;
}

int model_list(const struct http_options *o, json_t **out)
{
    json_t *found = json_object();
    *out = NULL;
    if (!found) return error_origin(-ENOMEM);
    int r = o->n_sockets == 0 ? scan_places(found) : 0;
    for (size_t i = 0; r == 0 && i < o->n_sockets; i++) {
        _cleanup_(freep) char *name = model_name(o->sockets[i]);
        struct stat st;
        if (name)
            found_add(found, name, stat(o->sockets[i], &st) == 0 ? st.st_mtime : 0);
        else
            r = -ENOMEM;
    }
    if (r == 0) *out = sorted(found);
    json_decref(found);
    return *out ? 0 : error_origin(-ENOMEM);
}

static int no_model(struct fault *f, const char *name)
{
    fault_set(f, 404, "model", "no model '%s': /v1/models lists the models", name);
    f->code = "model_not_found";
    return -ENOENT;
}

static int find_given(const struct http_options *o, const char *name, char **path, struct fault *f)
{
    for (size_t i = 0; i < o->n_sockets; i++) {
        _cleanup_(freep) char *mine = model_name(o->sockets[i]);
        if (!mine || (name && strcmp(name, mine) != 0)) continue;
        *path = strdup(o->sockets[i]);
        return *path ? 0 : fault_of_error(f, error_origin(-ENOMEM));
    }
    return name && strcmp(name, "default") == 0 ? find_given(o, NULL, path, f) : no_model(f, name ? name : "default");
}

int model_find(const struct http_options *o, const char *name, char **path, struct fault *f)
{
    _cleanup_(freep) char *file = NULL;
    *path = NULL;
    if (o->n_sockets > 0) return find_given(o, name, path, f);
    if (!name) name = "default";
    if (strchr(name, '/') || stem(name, ".gguf")) return no_model(f, name);
    for (unsigned system = 0; system < 2; system++) {
        struct stat st;
        _cleanup_(freep) char *socket = NULL;
        if (paths_socket(name, system, &socket) < 0 || stat(socket, &st) < 0 || !S_ISSOCK(st.st_mode)) continue;
        *path = steal(socket);
        return 0;
    }
    if (paths_model_file(name, false, &file) < 0 && paths_model_file(name, true, &file) < 0) return no_model(f, name);
    fault_set(f, 503, "model", "no daemon runs for the model '%s': enable hobd@%s.socket, or start hobd", name, name);
    return -ENOENT;
}
