/* SPDX-License-Identifier: MIT */
/* hob index --list: the indexes of this user. */
#include "client/columns.h"
#include "client/exit-status.h"
#include "client/find/commands.h"
#include "client/find/index.h"
#include "client/json.h"
#include "client/output.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

struct listed {
    int64_t files, chunks;
    uint64_t bytes;
    const char *state; /* "ok", "gone": the folder is, "damaged" */
};

static uint64_t size_of(const char *dir)
{
    uint64_t sum = 0;
    struct stat st;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    if (d) closedir(d);
    return sum;
}

/* What the index in @dir is; x->meta is zero if it cannot be read. */
static void examine(struct index *x, const char *dir, struct listed *l)
{
    _cleanup_(freep) char *path = NULL;
    struct stat st;
    *l = (struct listed){.bytes = size_of(dir), .state = "damaged"};
    if (asprintf(&path, "%s/" STORE_FILE, dir) < 0) path = NULL;
    int r = path ? store_open(&x->store, path, false, false) : -ENOMEM;
    if (r == 0) r = store_meta_read(&x->store, &x->meta);
    if (r == 0) r = store_number(&x->store, "SELECT count(*) FROM file", &l->files);
    if (r == 0) r = store_number(&x->store, "SELECT count(*) FROM chunk", &l->chunks);
    if (r == 0) l->state = stat(x->meta.root, &st) == 0 ? "ok" : "gone";
}

static int put_json(struct buf *out, const struct store_meta *m, const struct listed *l, const char *dir)
{
    const char *root = m->root ? m->root : "", *model = m->model ? m->model : "";
    int r = buf_puts(out, "{\"folder\":");
    if (r == 0) r = json_put_string(out, root, strlen(root));
    if (r == 0) r = buf_puts(out, ",\"index\":");
    if (r == 0) r = json_put_string(out, dir, strlen(dir));
    if (r == 0) r = buf_puts(out, ",\"model\":");
    if (r == 0) r = json_put_string(out, model, strlen(model));
    if (r == 0)
        r = buf_printf(out,
                       ",\"dims\":%" PRIu32 ",\"files\":%" PRId64 ",\"chunks\":%" PRId64 ",\"bytes\":%" PRIu64
                       ",\"state\":\"%s\"}\n",
                       m->dim, l->files, l->chunks, l->bytes, l->state);
    return r;
}

static int put_row(struct table *t, const struct store_meta *m, const struct listed *l, const char *dir)
{
    char files[24], chunks[24], dims[16], size[16];
    snprintf(files, sizeof(files), "%" PRId64, l->files);
    snprintf(chunks, sizeof(chunks), "%" PRId64, l->chunks);
    snprintf(dims, sizeof(dims), "%" PRIu32, m->dim);
    const char *const cells[] = {m->root ? m->root : dir,  files, chunks,  format_size(size, l->bytes),
                                 m->model ? m->model : "", dims,  l->state};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof(cells) / sizeof(*cells); i++) r = table_put(t, cells[i]);
    return r;
}

static int list_all(const struct find_options *f, const char *all, struct buf *out, struct table *t)
{
    struct dirent **names;
    int r = 0, n = scandir(all, &names, NULL, alphasort);
    if (n < 0) return errno == ENOENT ? 0 : error_say(-errno, "%s: %s", all, strerror(errno));
    for (int i = 0; i < n; i++) {
        _cleanup_(freep) char *dir = NULL;
        struct index x = INDEX_INIT;
        struct listed l;
        if (r == 0 && *names[i]->d_name != '.') {
            r = asprintf(&dir, "%s/%s", all, names[i]->d_name) < 0 ? -ENOMEM : 0;
            if (r < 0) dir = NULL;
            if (r == 0) examine(&x, dir, &l);
            if (r == 0) r = f->jsonl ? put_json(out, &x.meta, &l, dir) : put_row(t, &x.meta, &l, dir);
            index_close(&x);
        }
        free(names[i]);
    }
    free(names);
    return r == -ENOMEM ? error_say(r, "no memory for the list") : r;
}

int index_list(const struct find_options *f)
{
    static const char *const heads[] = {"FOLDER", "FILES", "CHUNKS", "SIZE", "MODEL", "DIMS", "STATE"};
    _cleanup_(freep) char *all = NULL;
    struct buf out = BUF_INIT;
    struct table t = {.columns = 7, .right = 0x2e, .width = table_terminal(STDOUT_FILENO), .optional = 0x34};
    int r = place_all(&all);
    for (size_t i = 0; r == 0 && i < 7; i++) r = table_put(&t, heads[i]);
    if (r == 0) r = list_all(f, all, &out, &t);
    if (r == 0 && !f->jsonl) r = table_print(&out, &t);
    if (r == 0) r = output_print(out.data ? out.data : "", out.len);
    table_fini(&t);
    buf_fini(&out);
    return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
}
