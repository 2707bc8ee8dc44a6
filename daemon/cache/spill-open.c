/* SPDX-License-Identifier: MIT */
/* The beginning of the disk tier: the files that earlier processes left become nodes of the index. */
#include "daemon/cache/cache.h"
#include "daemon/cache/payload.h"
#include "daemon/cache/spill-state.h"
#include "daemon/cache/spill-states.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>
#include <string.h>

#define BYTES_A_MINUTE (256ull << 20)

/* The files of the directory, in the order of last use. */
struct files {
    struct prefix_info *infos; /* [n]; they own their runs */
    size_t n, cap;
};

static bool collect(void *ctx, struct prefix_info *info)
{
    struct files *f = ctx;
    if (f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 64;
        struct prefix_info *more = reallocarray(f->infos, cap, sizeof(*more));
        if (!more) return false;
        f->infos = more;
        f->cap = cap;
    }
    f->infos[f->n++] = *info;
    info->runs = NULL;
    return true;
}

static void files_fini(struct files *f)
{
    for (size_t i = 0; i < f->n; i++) free((struct item_run *)f->infos[i].runs);
    free(f->infos);
}

static int by_id(const void *x, const void *y)
{
    const struct prefix_id *a = &(*(struct prefix_info *const *)x)->id, *b = &(*(struct prefix_info *const *)y)->id;
    if (a->high != b->high) return a->high < b->high ? -1 : 1;
    return (a->low > b->low) - (a->low < b->low);
}

/* Index all files. Evicted blocks were written children first, so each file is preceded by its parents. A file that
 * cannot be reached from a root is removed. */
static int index_files(struct kv_cache *c, const struct files *f, struct disk *d)
{
    _cleanup_(freep) struct prefix_info **sorted = calloc(f->n + 1, sizeof(struct prefix_info *));
    _cleanup_(freep) struct prefix_info **chain = calloc(f->n + 1, sizeof(struct prefix_info *));
    if (!sorted || !chain) return -ENOMEM;
    for (size_t i = 0; i < f->n; i++) sorted[i] = &f->infos[i];
    if (f->n) qsort(sorted, f->n, sizeof(*sorted), by_id);
    for (size_t i = 0; i < f->n; i++) {
        struct prefix_info *x = &f->infos[i], parent, *key = &parent, **found;
        size_t n = 0;
        while (x && x->on_disk) { /* not indexed yet */
            x->on_disk = false;
            chain[n++] = x;
            parent.id = x->parent;
            found = bsearch(&key, sorted, f->n, sizeof(*sorted), by_id);
            x = found ? *found : NULL;
        }
        while (n-- > 0)
            if (prefix_disk_add(c->prefix, chain[n]) != 0) disk_remove(d, chain[n]->id);
    }
    return 0;
}

static int scan(struct kv_cache *c, struct disk *d)
{
    struct files f = {0};
    int r = disk_scan(d, collect, &f, NULL);
    if (r == 0) r = index_files(c, &f, d);
    files_fini(&f);
    return r;
}

void spill_open(struct kv_cache *c)
{
    struct spill *t = c->spill;
    if (t->disk || t->given_up || backend_kv_identity(c->backend, t->identity) != 0) return;
    struct disk_config config = {.dir = t->config.cache_dir,
                                 .payload = t->payload,
                                 .unit = DISK_UNIT,
                                 .bytes_max = spill_kv_bytes(c, t->config.cache_bytes),
                                 .reserve = t->config.disk_reserve,
                                 .bytes_a_minute = BYTES_A_MINUTE};
    memcpy(config.identity, t->identity, sizeof(config.identity));
    for (uint32_t g = 1; g < c->n_groups; g++) config.parts[g] = payload_block(c->backend, g);
    int r = disk_open(&t->disk, &config);
    if (r == 0) r = scan(c, t->disk);
    if (r == 0) {
        spill_states_open(c);
        return;
    }
    log_warning("KV blocks are kept only in memory: %s", error_text(r));
    t->disk = disk_close(t->disk);
    t->given_up = true;
}
