/* SPDX-License-Identifier: MIT */
#include "client/templates/place.h"
#include "client/templates/templates.h"
#include "libcommon/cleanup.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX    ".conf"
#define NAMES_MAX 4096 /* templates of all folders */

/* The name is a file's without SUFFIX. A file whose name begins with a point is hidden. */
static bool is_name(const char *s, size_t n)
{
    if (!n || n > TEMPLATE_NAME_MAX || *s == '.') return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < ' ' || s[i] == 0x7f || s[i] == '/') return false;
    return true;
}

static bool has(const struct template_list *l, const char *name, size_t n)
{
    for (size_t i = 0; i < l->n; i++)
        if (strlen(l->places[i].name) == n && memcmp(l->places[i].name, name, n) == 0) return true;
    return false;
}

static int add(struct template_list *l, const char *dir, const char *name, size_t n, enum template_origin origin)
{
    struct template_place *more = reallocarray(l->places, l->n + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    l->places = more;
    more += l->n;
    *more = (struct template_place){.name = strndup(name, n), .origin = origin};
    if (more->name && asprintf(&more->path, "%s/%s" SUFFIX, dir, more->name) < 0) more->path = NULL;
    if (more->path) {
        l->n++;
        return 0;
    }
    free(more->name);
    return -ENOMEM;
}

/* Add the templates of @dir, if it can be read, that no folder before it has. */
static int add_folder(struct template_list *l, const char *dir, enum template_origin origin)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    int r = 0;
    while (d && r == 0 && l->n < NAMES_MAX && (e = readdir(d))) {
        size_t n = strlen(e->d_name);
        if (n <= strlen(SUFFIX) || strcmp(e->d_name + n - strlen(SUFFIX), SUFFIX) != 0) continue;
        n -= strlen(SUFFIX);
        if (is_name(e->d_name, n) && !has(l, e->d_name, n)) r = add(l, dir, e->d_name, n, origin);
    }
    if (d) closedir(d);
    return r;
}

/* The folder "templates" in the configuration of the user or the system. */
static int add_config(struct template_list *l, bool system)
{
    _cleanup_(freep) char *config = NULL, *dir = NULL;
    int r = paths_dir(PATHS_CONFIG, system, &config);
    if (r < 0) return r == -ENOMEM ? r : 0; /* without a home directory the user has none */
    if (asprintf(&dir, "%s/templates", config) < 0) return -ENOMEM;
    return add_folder(l, dir, system ? TEMPLATE_SYSTEM : TEMPLATE_USER);
}

/* They are beside the program where it was built, and else where it is installed. */
static int add_shipped(struct template_list *l)
{
    char dir[PATH_MAX + 16];
    if (paths_program_dir(dir)) {
        strcat(dir, "/templates");
        int r = add_folder(l, dir, TEMPLATE_SHIPPED);
        if (r < 0) return r;
    }
    return add_folder(l, HOB_DATADIR "/templates", TEMPLATE_SHIPPED);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct template_place *)a)->name, ((const struct template_place *)b)->name);
}

int template_list(struct template_list *l)
{
    *l = (struct template_list){0};
    int r = add_config(l, false);
    if (r == 0) r = add_config(l, true);
    if (r == 0) r = add_shipped(l);
    if (r < 0) return error_say(r, "no memory for the templates");
    if (l->n) qsort(l->places, l->n, sizeof(*l->places), by_name);
    return 0;
}

void template_list_free(struct template_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->places[i].name);
        free(l->places[i].path);
    }
    free(l->places);
    *l = (struct template_list){0};
}

const struct template_place *template_find(const struct template_list *l, const char *name)
{
    const char **names = calloc(l->n + 1, sizeof(*names)), *near = NULL;
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->places[i].name, name) == 0) {
            free(names);
            return &l->places[i];
        }
        if (names) names[i] = l->places[i].name;
    }
    if (names) near = conf_nearest(name, names);
    if (near)
        error_say(-EINVAL, "no template has the name '%.64s', nearest is '%s' (see hob templates)", name, near);
    else
        error_say(-EINVAL, "no template has the name '%.64s' (see hob templates)", name);
    free(names);
    return NULL;
}

int template_user_path(const char *name, char **out)
{
    _cleanup_(freep) char *config = NULL;
    if (!is_name(name, strlen(name)))
        return error_say(-EINVAL,
                         "'%.64s' is not a name: 1 to %d bytes without '/', control characters or a point at "
                         "the beginning",
                         name, TEMPLATE_NAME_MAX);
    int r = paths_dir(PATHS_CONFIG, false, &config);
    if (r < 0) return r;
    if (asprintf(out, "%s/templates/%s" SUFFIX, config, name) < 0) {
        *out = NULL;
        return error_say(-ENOMEM, "no memory for a path");
    }
    return 0;
}
