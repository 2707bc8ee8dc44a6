/* SPDX-License-Identifier: MIT */
#include "client/option-check.h"
#include "client/option-value.h"
#include "client/templates/place.h"
#include "client/templates/templates.h"
#include "client/templates/variables.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options that are keys of a template although hob.conf has none of them. */
static const unsigned char more_options[] = {
    OPTION_SCHEMA,  OPTION_GRAMMAR,        OPTION_REGEX,       OPTION_CHOICE,       OPTION_ON_LIMIT,
    OPTION_COMPACT, OPTION_SCHEMA_LENIENT, OPTION_ANY_ORDER,   OPTION_TOOLS,        OPTION_TOOL,
    OPTION_EXTRACT, OPTION_TOOL_CHOICE,    OPTION_TOOL_ROUNDS, OPTION_TOOL_TIMEOUT,
};
static const char *const own_keys[] = {"prompt", "description", "param"};

enum { MORE = sizeof(more_options) / sizeof(*more_options), OWN = sizeof(own_keys) / sizeof(*own_keys) };

struct reading {
    struct options *o;
    uint64_t given[2]; /* on the command line */
    const char *path;  /* of the file */
    bool constraint;   /* the command line has one */
};

static bool was_given(const struct reading *t, unsigned id)
{
    return t->given[id / 64] >> id % 64 & 1;
}

static bool is_key(unsigned id)
{
    if (option_table[id].flags & OPTION_IN_FILE) return true;
    for (unsigned i = 0; i < MORE; i++)
        if (more_options[i] == id) return true;
    return false;
}

/* The command line overrides the template: the option itself, or one that excludes it. */
static bool overridden(const struct reading *t, unsigned id)
{
    if (was_given(t, id)) return true;
    if (id == OPTION_SESSION) return was_given(t, OPTION_CONTINUE);
    if (id == OPTION_SYSTEM) return was_given(t, OPTION_RAW);
    if (id == OPTION_QUIET) return was_given(t, OPTION_VERBOSE);
    if (id == OPTION_VERBOSE) return was_given(t, OPTION_QUIET);
    return t->constraint && id >= OPTION_SCHEMA && id <= OPTION_COMPACT;
}

static bool is_json(const char *value)
{
    return *value == '{' || strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
}

/* A copy of @value that lives as long as the options. A relative path is one from the folder of the template. NULL: no
 * memory. */
static const char *keep(struct reading *t, enum option_id id, const char *value)
{
    struct option_template *to = &t->o->template;
    const char *home = getenv("HOME"), *slash = strrchr(t->path, '/');
    bool path = id == OPTION_TOOLS || id == OPTION_GRAMMAR || (id == OPTION_SCHEMA && !is_json(value)) ||
                (id == OPTION_TOOL && strchr(value, '/'));
    char *copy = NULL, **more = reallocarray(to->kept, to->n_kept + 1, sizeof(*more));
    if (!more) return NULL;
    to->kept = more;
    if (path && home && strncmp(value, "~/", 2) == 0) {
        if (asprintf(&copy, "%s%s", home, value + 1) < 0) return NULL;
    } else if (path && *value && *value != '/' && slash) {
        if (asprintf(&copy, "%.*s/%s", (int)(slash - t->path), t->path, value) < 0) return NULL;
    } else if (!(copy = strdup(value))) {
        return NULL;
    }
    return to->kept[to->n_kept++] = copy;
}

static int set_option(struct reading *t, enum option_id id, const char *value)
{
    struct options *o = t->o;
    const char *kept = keep(t, id, value);
    if (!kept) return error_say(-ENOMEM, "no memory for the template");
    if (id == OPTION_TOOL) { /* the array has room for those of the command line only */
        const char **more = reallocarray(o->tools.paths, o->tools.n_paths + 1, sizeof(*more));
        if (!more) return error_say(-ENOMEM, "no memory for the template");
        o->tools.paths = more;
    }
    o->given[id / 64] |= UINT64_C(1) << id % 64;
    int r = option_set(o, id, kept);
    return r < 0 ? error_in(r, "%s", option_table[id].name) : 0;
}

/* @found: the option with that name, OPTION_COUNT: none. */
static int unknown_key(const char *key, unsigned found)
{
    const char *names[OPTION_COUNT + OWN + 1];
    size_t n = 0;
    if (found < OPTION_COUNT) return error_say(-EINVAL, "'%s' can be set only on the command line", key);
    for (unsigned i = 0; i < OWN; i++) names[n++] = own_keys[i];
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (is_key(i)) names[n++] = option_table[i].name;
    names[n] = NULL;
    const char *near = conf_nearest(key, names);
    if (near) return error_say(-EINVAL, "unknown key '%s', nearest is '%s'", key, near);
    return error_say(-EINVAL, "unknown key '%s'", key);
}

static int read_key(void *ctx, const char *key, const char *value)
{
    struct reading *t = ctx;
    struct option_template *to = &t->o->template;
    unsigned i = 0;
    int r;

    if (strcmp(key, "description") == 0) return 0;
    if (strcmp(key, "prompt") == 0) {
        r = option_set_text(&to->prompt, value);
        return r < 0 ? error_in(r, "prompt") : 0;
    }
    if (strcmp(key, "param") == 0) {
        const char *kept = keep(t, OPTION_COUNT, value);
        r = kept ? variable_add(&to->defaults, &to->n_defaults, kept)
                 : error_say(-ENOMEM, "no memory for the template");
        return r < 0 ? error_in(r, "param") : 0;
    }
    while (i < OPTION_COUNT && strcmp(option_table[i].name, key) != 0) i++;
    if (i == OPTION_COUNT || !is_key(i)) return unknown_key(key, i);
    if (overridden(t, i)) return 0;
    if (i == OPTION_SYSTEM) to->has_system = true;
    return set_option(t, (enum option_id)i, value);
}

static int read_file(struct options *o, const char *path)
{
    struct reading t = {.o = o, .path = path};
    memcpy(t.given, o->given, sizeof(t.given));
    for (unsigned i = OPTION_SCHEMA; i <= OPTION_CHOICE; i++) t.constraint |= was_given(&t, i);
    int r = conf_read(path, read_key, &t);
    return r > 0 ? error_say(-EINVAL, "%s: no such file", path) : r;
}

int template_load(struct options *o)
{
    struct template_list all;
    const char *name = o->template.name;
    if (!name || o->command != COMMAND_GENERATE) return 0;
    int r = template_list(&all);
    const struct template_place *at = r == 0 ? template_find(&all, name) : NULL;
    if (r == 0) r = at ? read_file(o, at->path) : -EINVAL;
    template_list_free(&all);
    if (r == 0) r = variables_check(o);
    return r == 0 ? variables_system(o) : r;
}

int template_check(const char *path)
{
    char name[] = "hob";
    char *argv[] = {name, NULL};
    struct options o;
    int r = options_parse(&o, 1, argv);
    if (r == 0) r = read_file(&o, path);
    if (r == 0) r = variables_names(&o);
    if (r == 0) r = option_check(&o);
    options_fini(&o);
    return r;
}
