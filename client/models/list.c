/* SPDX-License-Identifier: MIT */
#include "client/columns.h"
#include "client/exit-status.h"
#include "client/json.h"
#include "client/models/loaded.h"
#include "client/models/metadata.h"
#include "client/models/models.h"
#include "client/models/parts.h"
#include "client/output.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include "libcommon/units.h"
#include <dirent.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

struct entry {
    char *name, *path, *link; /* link: target of a symbolic link; NULL: a regular file */
    const char *folder;
    bool chosen, loaded;
};

struct listing {
    struct entry *e;
    size_t n;
};

static void closedirp(DIR **d)
{
    if (*d) closedir(*d);
}

static void listing_fini(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->e[i].name);
        free(l->e[i].path);
        free(l->e[i].link);
    }
    free(l->e);
}

static char *link_target(int dir, const char *file)
{
    char target[4096];
    ssize_t n = readlinkat(dir, file, target, sizeof(target));
    return n > 0 && n < (ssize_t)sizeof(target) ? strndup(target, (size_t)n) : NULL;
}

static int listing_add(struct listing *l, int dir, const char *path, const char *file, const char *folder)
{
    struct entry *more = reallocarray(l->e, l->n + 1, sizeof(*more)), *e;
    if (!more) return -ENOMEM;
    l->e = more;
    e = &l->e[l->n++];
    *e = (struct entry){.name = strndup(file, strlen(file) - 5), .folder = folder, .link = link_target(dir, file)};
    if (!e->name || asprintf(&e->path, "%s/%s", path, file) < 0) return -ENOMEM;
    int r = loaded_by(e->name, strcmp(folder, "system") == 0);
    if (r < 0) return error_in(r, "%s: whether a daemon has loaded it", e->name);
    e->loaded = r;
    return 0;
}

static int listing_scan(struct listing *l, const char *path, const char *folder)
{
    _cleanup_(closedirp) DIR *d = opendir(path);
    int r = 0;
    if (!d && errno != ENOENT && errno != ENOTDIR) log_warning("%s: %s", path, strerror(errno));
    for (struct dirent *e; d && r == 0 && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n > 5 && *e->d_name != '.' && strcmp(e->d_name + n - 5, ".gguf") == 0 && !parts_is_rest(e->d_name))
            r = listing_add(l, dirfd(d), path, e->d_name, folder);
    }
    return r;
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    /* for one name: user, system, shared */
    return c ? c : strcmp(y->folder, x->folder);
}

/* Mark the model that plain hob uses: the user's own, else the one that the distribution or the administrator has
 * installed. */
static void listing_choose(struct listing *l, const char *chosen)
{
    static const char *const order[] = {"user", "shared", "system"};
    for (size_t f = 0; f < 3; f++)
        for (size_t i = 0; i < l->n; i++)
            if (strcmp(l->e[i].folder, order[f]) == 0 && strcmp(l->e[i].name, chosen) == 0) {
                l->e[i].chosen = true;
                return;
            }
}

static int listing_fill(struct listing *l, const char *chosen)
{
    _cleanup_(freep) char *user = NULL, *system = NULL;
    int r = paths_dir(PATHS_MODELS, false, &user);
    if (r < 0 && r != -ENOENT) return r;
    r = r == 0 ? listing_scan(l, user, "user") : 0; /* without a home directory, list the other folders */
    if (r == 0) r = paths_dir(PATHS_MODELS, true, &system);
    if (r == 0 && (!user || strcmp(user, system) != 0)) r = listing_scan(l, system, "system");
    if (r == 0) r = listing_scan(l, "/usr/share/hob/models", "shared");
    if (r < 0) return r;
    if (l->n) qsort(l->e, l->n, sizeof(*l->e), by_name);
    listing_choose(l, chosen);
    return 0;
}

static int put_row(struct table *t, const struct entry *e, const struct metadata *f)
{
    char size[16], context[24];
    const char *state = f->error        ? "broken"
                        : !f->supported ? "unsupported"
                        : f->encoder    ? "encoder"
                        : !e->chosen    ? (e->loaded ? "loaded" : "")
                        : e->loaded     ? "default, loaded"
                                        : "default";
    int r = table_put(t, e->name);
    snprintf(context, sizeof(context), "%" PRIu64, f->context);
    if (r == 0) r = table_put(t, f->bytes ? format_size(size, f->bytes) : "-");
    if (r == 0) r = table_put(t, f->type ? f->type : "-");
    if (r == 0) r = table_put(t, f->encoder ? f->encoder : f->architecture ? f->architecture : "-");
    if (r == 0) r = table_put(t, f->context ? context : "-");
    if (r == 0) r = table_put(t, f->error ? "-" : f->chat_template ? "yes" : "no");
    if (r == 0) r = table_put(t, f->error ? "-" : f->packed_why ? "?" : f->packed ? "yes" : "no");
    if (r == 0) r = table_put(t, e->folder);
    return r == 0 ? table_put(t, state) : r;
}

static int as_table(struct buf *out, const struct listing *l, const struct metadata *metadata)
{
    static const char *const heads[] = {"name", "size", "type", "arch", "context", "template", "packed", "folder", ""};
    enum { COLUMNS = sizeof(heads) / sizeof(*heads) };
    struct table t = {
        .columns = COLUMNS, .right = 1 << 1 | 1 << 4, .optional = 0xfc, .width = table_terminal(STDOUT_FILENO)};
    int r = 0;

    for (unsigned c = 0; r == 0 && c < COLUMNS; c++) r = table_put(&t, heads[c]);
    for (size_t i = 0; r == 0 && i < l->n; i++) r = put_row(&t, &l->e[i], &metadata[i]);
    if (r == 0) r = table_print(out, &t);
    table_fini(&t);
    return r;
}

static int put_text(struct buf *out, const char *key, const char *text)
{
    int r = buf_printf(out, ",\"%s\":", key);
    if (r == 0) r = text ? json_put_string(out, text, strlen(text)) : buf_puts(out, "null");
    return r;
}

static int put_number(struct buf *out, const char *key, uint64_t v)
{
    return v ? buf_printf(out, ",\"%s\":%" PRIu64, key, v) : buf_printf(out, ",\"%s\":null", key);
}

static int put_object(struct buf *out, const struct entry *e, const struct metadata *f)
{
    int r = buf_puts(out, "{\"name\":");
    if (r == 0) r = json_put_string(out, e->name, strlen(e->name));
    if (r == 0) r = put_text(out, "file", e->path);
    if (r == 0) r = put_text(out, "folder", e->folder);
    if (r == 0) r = put_text(out, "link", e->link);
    if (r == 0) r = put_number(out, "bytes", f->bytes);
    if (r == 0) r = put_text(out, "type", f->type);
    if (r == 0) r = put_text(out, "architecture", f->architecture);
    if (r == 0) r = put_text(out, "encoder", f->encoder);
    if (r == 0) r = put_number(out, "context", f->context);
    if (r == 0)
        r = buf_printf(out, ",\"template\":%s,\"packed\":%s,\"supported\":%s,\"default\":%s,\"loaded\":%s",
                       f->chat_template ? "true" : "false",
                       f->packed_why ? "null"
                       : f->packed   ? "true"
                                     : "false",
                       f->supported ? "true" : "false", e->chosen ? "true" : "false", e->loaded ? "true" : "false");
    if (r == 0 && f->packed_why) r = put_text(out, "packed_why", f->packed_why);
    if (r == 0 && !f->supported) r = put_text(out, "why", f->error ? f->error : f->why);
    return r == 0 ? buf_puts(out, "}") : r;
}

static int as_json(struct buf *out, const struct listing *l, const struct metadata *metadata)
{
    int r = buf_puts(out, "[");
    for (size_t i = 0; r == 0 && i < l->n; i++) {
        if (i) r = buf_puts(out, ",");
        if (r == 0) r = put_object(out, &l->e[i], &metadata[i]);
    }
    return r == 0 ? buf_puts(out, "]\n") : r;
}

static int listing_print(const struct listing *l, const struct metadata *metadata, bool json)
{
    struct buf text = BUF_INIT;
    int r = json ? as_json(&text, l, metadata) : l->n ? as_table(&text, l, metadata) : 0;
    if (r == 0 && text.len) r = output_print(text.data, text.len);
    buf_fini(&text);
    return r;
}

/* The reasons for words of the table. */
static void warn(const struct entry *e, const struct metadata *f)
{
    if (!f->supported) log_warning("%s: %s", e->name, f->error ? f->error : f->why ? f->why : "?");
    if (f->packed_why) log_warning("%s: its repacked weights cannot be looked up: %s", e->name, f->packed_why);
}

int models_list(const struct models_options *o)
{
    _cleanup_(freep) const char **paths = NULL;
    _cleanup_(freep) struct metadata *metadata = NULL;
    struct listing l = {0};
    int r = listing_fill(&l, o->chosen);
    if (r == 0) {
        paths = calloc(l.n + 1, sizeof(*paths));
        metadata = calloc(l.n + 1, sizeof(*metadata));
        if (!paths || !metadata) r = -ENOMEM;
    }
    for (size_t i = 0; r == 0 && i < l.n; i++) paths[i] = l.e[i].path;
    if (r == 0) r = metadata_read(metadata, paths, l.n);
    if (r == 0) {
        r = listing_print(&l, metadata, o->json);
        if (!o->json && !l.n) log_info("no models; to add one: hob models add FILE, or hob models pull URL");
        for (size_t i = 0; i < l.n; i++) {
            if (!o->json) warn(&l.e[i], &metadata[i]);
            metadata_fini(&metadata[i]);
        }
    }
    listing_fini(&l);
    return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
}
