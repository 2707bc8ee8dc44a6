/* SPDX-License-Identifier: MIT */
#include "daemon/engine/store.h"
#include "daemon/engine/state.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <string.h>

#define WRITES_IDLE    2u          /* jobs at once that write what nobody uses */
#define WRITES_MOST    16u         /* with those for evicted blocks, whose copies wait in memory */
#define IDLE_USEC      1000000ull  /* this long after the last step, blocks are written */
#define RETRY_USEC     10000000ull /* after a refusal of the disk, or of the rate */
#define TRIM_USEC      1000000ull  /* between looks whether the disk has less room than before */
#define TRIM_FILES     64u         /* that one job removes */
#define BYTES_A_MINUTE (256ull << 20)

/* In memory there is one model only, and every file says whose it is. */
static const uint8_t here[16];

struct store {
    struct space_secret secret;
    uint8_t identity[16];
    struct disk *disk; /* NULL: not yet, or none */
    bool given_up;     /* there will be none */
    uint64_t payload;
    uint32_t writes; /* jobs under way */
    uint64_t retry;  /* not before, us */
    uint64_t last_step, last_step_at;
    bool all_written;
    bool trimming;
    uint64_t trim_next; /* us */
};

/* A block on its way to the disk. */
struct write {
    struct errand errand;
    struct disk *disk;
    struct prefix_info info;
    bool has_victim;
    struct prefix_id victim; /* its file makes room */
    int r;
    char why[160];
    uint8_t payload[];
};

/* Files that go because there is less room. */
struct trim {
    struct errand errand;
    struct disk *disk;
    uint64_t n;
    struct prefix_id files[TRIM_FILES];
};

/* --- start --- */

/* What the directory has, in the order of last use. */
struct files {
    struct prefix_info *infos;
    size_t n, cap;
};

static bool collect(void *ctx, const struct prefix_info *info)
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
    return true;
}

static int by_id(const void *x, const void *y)
{
    const struct prefix_id *a = &(*(struct prefix_info *const *)x)->id, *b = &(*(struct prefix_info *const *)y)->id;
    if (a->high != b->high) return a->high < b->high ? -1 : 1;
    return (a->low > b->low) - (a->low < b->low);
}

/* They become nodes of the index. What was evicted was written children first: whose file is looked at takes its
 * parents' with it. Where nothing leads to a file, it goes. */
static int adopt_all(struct engine *e, const struct files *f, struct disk *d)
{
    _cleanup_(freep) struct prefix_info **sorted = calloc(f->n + 1, sizeof(struct prefix_info *));
    _cleanup_(freep) struct prefix_info **line = calloc(f->n + 1, sizeof(struct prefix_info *));
    if (!sorted || !line) return -ENOMEM;
    for (size_t i = 0; i < f->n; i++) sorted[i] = &f->infos[i];
    if (f->n) qsort(sorted, f->n, sizeof(*sorted), by_id);
    for (size_t i = 0; i < f->n; i++) {
        struct prefix_info *x = &f->infos[i], parent, *key = &parent, **found;
        size_t n = 0;
        while (x && x->on_disk) { /* it had no turn yet */
            x->on_disk = false;
            line[n++] = x;
            parent.id = x->parent;
            found = bsearch(&key, sorted, f->n, sizeof(*sorted), by_id);
            x = found ? *found : NULL;
        }
        while (n-- > 0)
            if (prefix_adopt(e->prefix, line[n]) != 0) disk_remove(d, line[n]->id);
    }
    return 0;
}

static int scan(struct engine *e, struct disk *d)
{
    struct files f = {0};
    int r = disk_scan(d, collect, &f, NULL);
    if (r == 0) r = adopt_all(e, &f, d);
    free(f.infos);
    return r;
}

/* Once the model's identity is known. */
static void open_disk(struct engine *e)
{
    struct store *s = e->store;
    struct backend *b = e->model.backend;
    if (s->disk || s->given_up || backend_kv_identity(b, s->identity) != 0) return;
    struct disk_config c = {.dir = e->config.cache_dir,
                            .payload = s->payload,
                            .bytes_max = e->config.cache_bytes,
                            .reserve = e->config.disk_reserve,
                            .bytes_a_minute = BYTES_A_MINUTE};
    memcpy(c.identity, s->identity, sizeof(c.identity));
    int r = disk_open(&s->disk, &c);
    if (r == 0) r = scan(e, s->disk);
    if (r == 0) return;
    log_warning("no KV is kept on disk: %s", error_text(r));
    s->disk = disk_close(s->disk);
    s->given_up = true;
}

int store_new(struct engine *e)
{
    struct store *s = e->store = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    int r = prefix_new(&e->prefix, e->pool, NULL);
    if (r < 0) return r;
    r = space_secret_load(&s->secret, e->config.state_dir);
    if (r < 0) {
        log_warning("cached prefixes last as long as this process: %s", error_text(r));
        s->given_up = true;
        r = space_secret_load(&s->secret, NULL);
        if (r < 0) return r;
    }
    s->payload = e->model.backend->shape.groups[0].bytes_per_token * PREFIX_BLOCK;
    if (!e->config.cache_dir || e->config.cache_bytes == 0 || !e->config.state_dir) s->given_up = true;
    space_make(&e->public_space, &s->secret, here, &(struct space_owner){.public = true}, 0);
    open_disk(e);
    return 0;
}

void store_limit(struct engine *e)
{
    if (e->store && e->store->disk) disk_limit(e->store->disk, e->config.cache_bytes, e->config.disk_reserve);
}

void store_space(const struct engine *e, const struct seq *s, struct prefix_space *out)
{
    struct space_owner o = {
        .public = s->public, .uid = s->uid, .salt = s->req.gen.salt.data, .salt_len = s->req.gen.salt.len};
    space_make(out, &e->store->secret, here, &o, 0);
}

/* --- writing --- */

static void run_write(struct job *j)
{
    struct write *w = (struct write *)errand_of(j);
    if (w->has_victim) disk_remove(w->disk, w->victim);
    w->r = disk_room(w->disk, false);
    if (w->r == 0) w->r = disk_write(w->disk, &w->info, w->payload);
    if (w->r < 0) snprintf(w->why, sizeof(w->why), "%s", error_text(w->r));
}

static void written(struct engine *e, struct errand *x)
{
    struct write *w = (struct write *)x;
    struct store *s = e->store;
    s->writes--;
    if (w->r == 0) {
        prefix_stored(e->prefix, w->info.id);
    } else {
        prefix_not_stored(e->prefix, w->info.id);
        s->retry = engine_now() + RETRY_USEC;
        if (w->r < 0) log_warning("a block of KV is not kept on disk: %s", w->why);
    }
    free(w);
}

/* @info's block is written by the job pool, from a copy; @victim (NULL: none) makes room for it. */
static bool start_write(struct engine *e, const struct prefix_info *info, const struct prefix_id *victim)
{
    struct store *s = e->store;
    struct backend *b = e->model.backend;
    struct write *w = malloc(sizeof(*w) + s->payload);
    if (!w) {
        s->retry = engine_now() + RETRY_USEC;
        return false;
    }
    *w = (struct write){.disk = s->disk, .info = *info, .errand.job.uncharged = true};
    if (victim) {
        w->has_victim = true;
        w->victim = *victim;
    }
    b->ops->kv_read(b, 0, info->block, w->payload);
    s->writes++;
    errand_send(e, &w->errand, (uid_t)-1, run_write, written);
    return true;
}

static bool may_write(const struct engine *e, uint32_t most, uint64_t now)
{
    const struct store *s = e->store;
    return s->disk && s->writes < most && now >= s->retry && e->kept_good && !e->stopping;
}

bool store_leaving(void *ctx, const struct prefix_info *info)
{
    struct engine *e = ctx;
    return !info->on_disk && may_write(e, WRITES_MOST, engine_now()) && disk_room(e->store->disk, false) == 0 &&
           start_write(e, info, NULL);
}

/* The file that goes so that @info's can come: one that was used before it, or the same ones would go and come for
 * ever; any, where there are too many. */
static bool find_victim(const struct engine *e, const struct prefix_info *info, struct prefix_info *victim)
{
    return prefix_disk_victim(e->prefix, victim) && (victim->used < info->used || disk_excess(e->store->disk));
}

/* The next block that nobody uses: the first that would be evicted, or when the disk is full, the last. False: not now.
 */
static bool write_idle(struct engine *e, uint64_t now)
{
    struct store *s = e->store;
    struct prefix_info info, victim;
    int room = disk_room(s->disk, false);
    bool full = room == 1;
    if (room != 0 && !full) {
        s->retry = now + RETRY_USEC;
        return false;
    }
    s->all_written = !prefix_to_write(e->prefix, full, 0, &info);
    if (s->all_written) return false;
    s->all_written = full && !find_victim(e, &info, &victim); /* what the disk has is worth more */
    if (!s->all_written && full) prefix_lost(e->prefix, victim.id);
    if (!s->all_written && start_write(e, &info, full ? &victim.id : NULL)) return true;
    prefix_not_stored(e->prefix, info.id);
    return false;
}

/* --- less room --- */

static void run_trim(struct job *j)
{
    struct trim *t = (struct trim *)errand_of(j);
    for (uint64_t i = 0; i < t->n; i++) disk_remove(t->disk, t->files[i]);
}

static void trimmed(struct engine *e, struct errand *x)
{
    e->store->trimming = false;
    e->store->trim_next = 0; /* perhaps not all went */
    free(x);
}

/* The disk has been filled by others, or less is allowed: the files that were not used for longest go, also when none
 * is to come. */
static void trim(struct engine *e, uint64_t now)
{
    struct store *s = e->store;
    struct prefix_info victim;
    if (s->trimming || now < s->trim_next) return;
    s->trim_next = now + TRIM_USEC;
    uint64_t over = disk_excess(s->disk);
    struct trim *t = over ? calloc(1, sizeof(*t)) : NULL;
    if (!t) return;
    t->disk = s->disk;
    while (t->n < over && t->n < TRIM_FILES && prefix_disk_victim(e->prefix, &victim)) {
        prefix_lost(e->prefix, victim.id);
        t->files[t->n++] = victim.id;
    }
    if (!t->n) {
        free(t);
        return;
    }
    s->trimming = true;
    errand_send(e, &t->errand, (uid_t)-1, run_trim, trimmed);
}

/* How long nothing was computed. */
static uint64_t idle_since(struct engine *e, uint64_t now)
{
    struct store *s = e->store;
    if (s->last_step != e->steps || s->last_step_at == 0) {
        s->last_step_at = now;
        s->all_written = false;
    }
    s->last_step = e->steps;
    return s->last_step_at;
}

void store_look(struct engine *e, uint64_t now)
{
    struct store *s = e->store;
    if (!s->disk && !s->given_up) open_disk(e);
    if (s->disk && !e->stopping) trim(e, now);
    if (now - idle_since(e, now) < IDLE_USEC) return;
    while (!s->all_written && may_write(e, WRITES_IDLE, now) && write_idle(e, now)) continue;
}

uint64_t store_next(const struct engine *e, uint64_t now)
{
    const struct store *s = e->store;
    if (!s || !s->disk || s->all_written || s->writes >= WRITES_IDLE || e->stopping || !e->kept_good) return UINT64_MAX;
    uint64_t at = s->last_step_at + IDLE_USEC;
    if (at < s->retry) at = s->retry;
    return at > now ? at : now;
}

/* All that is not on disk, the latest first, as long as there is time and room. */
static void flush(struct engine *e, uint64_t until)
{
    struct store *s = e->store;
    struct backend *b = e->model.backend;
    struct prefix_info info, victim;
    _cleanup_(freep) uint8_t *payload = malloc(s->payload);
    uint64_t blocks = 0;
    int r = 0;
    while (payload && r == 0 && engine_now() < until && prefix_to_write(e->prefix, true, 0, &info)) {
        while ((r = disk_room(s->disk, true)) == 1 && find_victim(e, &info, &victim)) {
            prefix_lost(e->prefix, victim.id);
            disk_remove(s->disk, victim.id);
        }
        if (r == 0) {
            b->ops->kv_read(b, 0, info.block, payload);
            r = disk_write(s->disk, &info, payload);
        }
        if (r == 0) {
            prefix_stored(e->prefix, info.id);
            blocks++;
        } else {
            prefix_not_stored(e->prefix, info.id);
        }
    }
    if (r < 0) log_warning("not all KV is kept on disk: %s", error_text(r));
    if (blocks) log_debug("%llu blocks of KV written", (unsigned long long)blocks);
}

void store_free(struct engine *e, uint64_t until)
{
    struct store *s = e->store;
    if (s && e->kept_good && engine_now() < until) open_disk(e);
    if (s && s->disk && e->kept_good) flush(e, until);
    e->prefix = prefix_free(e->prefix);
    if (s) disk_close(s->disk);
    free(s);
    e->store = NULL;
}

bool store_count(const struct engine *e, struct disk_sum *out)
{
    *out = (struct disk_sum){0};
    if (!e->store || !e->store->disk) return false;
    disk_count(e->store->disk, out);
    return e->kept_good;
}

/* --- reading --- */

/* A slice of what the disk has of a sequence. */
struct fetch {
    struct disk *disk;
    struct backend *backend;
    uint64_t payload;
    struct prefix_node *last; /* held */
    uint32_t n, good;
    int r;
    char why[160];
    struct {
        struct prefix_info info;
        uint32_t block, tokens; /* into which, and how many of its tokens count */
    } part[STORE_SLICE];
};

static void run_fetch(struct job *j)
{
    struct fetch *f = seq_of(errand_of(j))->fetch;
    _cleanup_(freep) uint8_t *payload = malloc(f->payload);
    if (!payload) f->r = -ENOMEM;
    for (; f->r == 0 && f->good < f->n; f->good++) {
        f->r = disk_read(f->disk, &f->part[f->good].info, payload);
        if (f->r < 0) break;
        f->backend->ops->kv_write(f->backend, 0, f->part[f->good].block, payload);
    }
    if (f->r < 0) snprintf(f->why, sizeof(f->why), "%s", error_text(f->r));
}

static void fetch_back(struct engine *e, struct errand *x)
{
    store_fetched(e, seq_of(x));
}

bool store_fetch(struct engine *e, struct seq *s)
{
    struct store *t = e->store;
    uint32_t at = s->kv.n_tokens / PREFIX_BLOCK * PREFIX_BLOCK, n;
    struct prefix_node *x = s->reuse.seat;
    if (!t->disk || s->reuse.off || s->reuse.indexed != at) return false;
    struct fetch *f = NULL;
    while ((x = reuse_on_disk(e, s, x, at, &n)) && at + n > s->kv.n_tokens) {
        if (!f) f = calloc(1, sizeof(*f));
        if (!f) return false;
        prefix_info(x, &f->part[f->n].info);
        f->part[f->n].block = s->kv.ids[at / PREFIX_BLOCK];
        f->part[f->n++].tokens = n;
        f->last = x;
        at += n;
        if (n < PREFIX_BLOCK || f->n == STORE_SLICE) break;
    }
    if (!f) return false;
    prefix_hold(e->prefix, f->last);
    f->disk = t->disk;
    f->backend = e->model.backend;
    f->payload = t->payload;
    s->fetch = f;
    s->state = SEQ_FETCHING;
    seq_send(e, s, run_fetch, fetch_back);
    return true;
}

void store_unfetch(struct engine *e, struct seq *s)
{
    struct fetch *f = s->fetch;
    if (!f) return;
    prefix_drop(e->prefix, f->last);
    free(f);
    s->fetch = NULL;
}

void store_fetched(struct engine *e, struct seq *s)
{
    struct fetch *f = s->fetch;
    uint32_t at = s->kv.n_tokens / PREFIX_BLOCK * PREFIX_BLOCK;
    s->in_aux = false;
    if (s->state != SEQ_ENDED) { /* else its blocks go back, whatever is in them */
        for (uint32_t i = 0; i < f->good; i++) at += f->part[i].tokens;
        if (f->good) s->kv.n_tokens = at;
        if (s->last_step == 0)
            s->cached = s->kv.n_tokens; /* else it computed that itself, before it gave up its slot */
        reuse_advance(e, s);
    }
    bool more = f->r == 0;
    if (f->r < 0 && f->r != -ENOENT) /* files may be removed at any time */
        log_warning("what the disk has of a prompt is computed again: %s", f->why);
    if (f->good < f->n && (f->r == -ENOENT || f->r == -EBADMSG)) prefix_lost(e->prefix, f->part[f->good].info.id);
    store_unfetch(e, s);
    if (s->state == SEQ_ENDED)
        requests_returned(e, s);
    else if (!more || s->cancel || !store_fetch(e, s))
        admit_run(e, s);
}
