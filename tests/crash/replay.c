/* SPDX-License-Identifier: MIT */
/*
 * What hobd believes after a crash, for many crashes of one recorded log: opens each folder with the modules of hobd.
 *
 *     replay LOG ROOT FOLDER SEED FIRST COUNT     check states FIRST … of the folder with inode number ROOT in FOLDER
 *     replay LOG ROOT FOLDER SEED STATE           make this state, print the sessions that a copy of it has; keep it
 *
 * After a crash each session is as it was after the last acknowledged request, or after the interrupted one; it can be
 * written, and a second start finds the same. A KV block that is believed has the recorded bytes. The secret of the
 * namespaces is the recorded one, if it exists. No file of an interrupted write stays.
 */
#include "daemon/cache/disk/disk-file.h"
#include "daemon/cache/disk/disk.h"
#include "daemon/cache/disk/namespace.h"
#include "daemon/session/list.h"
#include "daemon/session/session.h"
#include "daemon/session/store.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "tests/crash/world.h"
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MOST = 300, BLOCKS_MOST = 4096 };

struct replay {
    struct history h;
    struct script s;
    const char *folder;
    char state[NAME_MOST], cache[NAME_MOST];
    struct disk_config disk;
    uint8_t *payload; /* of a block */
    uint64_t seed, believed, refused, damaged;
    struct crash now;
    char why[NAME_MOST];
};

/* Returns false, for a check that failed. */
static bool __attribute__((format(printf, 2, 3))) bad(struct replay *r, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    vsnprintf(r->why, sizeof(r->why), format, a);
    va_end(a);
    return false;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), e = strlen(end);
    return n >= e && strcmp(name + n - e, end) == 0;
}

/* --- recorded files --- */

/* Are these the whole contents of a file that ever had this name? */
static bool recorded(const struct history *h, const char *name, const void *p, size_t n)
{
    bool found = false;
    for (uint32_t i = 0; i < h->n && !found; i++) {
        const struct change *c = &h->changes[i];
        uint8_t *whole;
        size_t size;
        if (!c->file || !c->dir || strcmp(h->names[c->name], name) != 0) continue;
        history_contents(h, c->file, h->n, &whole, &size);
        found = size == n && memcmp(whole, p, n) == 0;
        free(whole);
    }
    return found;
}

/* The identity and the size of blocks, from the first block of the log. */
static void disk_learn(struct replay *r)
{
    for (uint32_t i = 0; i < r->h.n; i++) {
        const struct change *c = &r->h.changes[i];
        uint8_t *whole;
        size_t size;
        if (!c->file || c->r->op != RECORD_RENAME || !ends_in(r->h.names[c->name], ".kv")) continue;
        history_contents(&r->h, c->file, r->h.n, &whole, &size);
        const struct disk_header *d = (const void *)whole;
        memcpy(r->disk.identity, d->identity, sizeof(d->identity));
        r->disk.payload = d->payload;
        free(whole);
        break;
    }
    if (!r->disk.payload) errx(1, "the log has no KV block");
    r->disk.dir = r->cache;
    r->disk.bytes_max = UINT64_MAX;
    r->payload = malloc(r->disk.payload);
    if (!r->payload) err(1, "payload");
}

/* --- the checks --- */

static void store_read(struct session_store *s, struct world *w)
{
    struct session_info *list;
    size_t n;
    w->n = 0;
    if (session_list(s, getuid(), &list, &n) < 0) errx(1, "sessions: %s", error_text(-ENOMEM));
    for (size_t i = 0; i < n && w->n < WORLD_SESSIONS; i++) {
        struct world_session *x = &w->list[w->n++];
        struct session *y;
        *x = (struct world_session){.name = strdup(list[i].name->data)};
        if (session_acquire(s, getuid(), x->name, strlen(x->name), false, &y) < 0) continue;
        int r = session_load(y);
        for (size_t k = 0; r == 0 && k + 1 < y->content.n_messages && x->n < WORLD_TURNS; k += 2) {
            x->texts[x->n] = strdup(y->content.messages[k].content.data);
            x->answers[x->n++] = strdup(y->content.messages[k + 1].content.data);
        }
        session_release(s, y);
    }
    free(list);
}

static void world_forget(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        free((char *)(uintptr_t)w->list[i].name);
        for (uint32_t k = 0; k < w->list[i].n; k++) {
            free((char *)(uintptr_t)w->list[i].texts[k]);
            free((char *)(uintptr_t)w->list[i].answers[k]);
        }
    }
    w->n = 0;
}

static struct session_store *store_open(struct replay *r)
{
    struct session_store_config c = {.dir = r->state};
    struct session_store *s = NULL;
    int e = session_store_open(&s, UINT64_MAX, &c);
    if (e < 0) bad(r, "the sessions cannot be opened: %s", error_text(e));
    return s;
}

/* A turn in one of the sessions. */
static bool store_write(struct replay *r, struct session_store *s, struct world_session *to)
{
    struct session *y;
    int e = session_acquire(s, getuid(), to->name, strlen(to->name), false, &y);
    if (e == 0) {
        e = session_load(y);
        if (e == 0) e = session_add_message(y, "user", 4, "next", 4);
        if (e == 0) e = session_add_message(y, "assistant", 9, "yes", 3);
        if (e == 0) e = session_save(y);
        session_release(s, y);
    }
    if (e < 0) return bad(r, "session %s cannot be written: %s", to->name, error_text(e));
    to->texts[to->n] = strdup("next");
    to->answers[to->n++] = strdup("yes");
    return true;
}

static bool check_sessions(struct replay *r)
{
    static struct world first, second;
    struct session_store *s = store_open(r);
    if (!s) return false;
    store_read(s, &first);
    const char *why = world_check(&r->s, r->now.at, &first);
    bool ok = why ? bad(r, "%s", why) : true;
    if (ok && first.n) ok = store_write(r, s, &first.list[r->now.seed % first.n]);
    session_store_free(s);
    s = ok ? store_open(r) : NULL;
    if (s) {
        store_read(s, &second);
        ok = second.n == first.n || bad(r, "a second start finds %u sessions, not %u", second.n, first.n);
        for (uint32_t i = 0; ok && i < first.n; i++)
            ok = world_same(&first.list[i], world_find(&second, first.list[i].name)) ||
                 bad(r, "a second start finds another session %s", first.list[i].name);
        session_store_free(s);
    }
    world_forget(&first);
    world_forget(&second);
    return ok && s;
}

struct blocks {
    struct prefix_info list[BLOCKS_MOST];
    size_t n;
};

static bool keep(void *ctx, struct prefix_info *info)
{
    struct blocks *b = ctx;
    if (b->n == BLOCKS_MOST) errx(1, "too many blocks");
    b->list[b->n++] = *info;
    return true;
}

static bool check_blocks(struct replay *r)
{
    static struct blocks b;
    struct disk *d;
    bool ok = true;
    b.n = 0;
    int e = disk_open(&d, &r->disk);
    if (e < 0) return bad(r, "the blocks cannot be opened: %s", error_text(e));
    if (disk_scan(d, keep, &b, NULL) < 0) ok = bad(r, "the blocks cannot be scanned");
    uint8_t *whole = malloc(sizeof(struct disk_header) + r->disk.payload);
    for (size_t i = 0; ok && whole && i < b.n; i++) {
        struct disk_head head;
        struct disk_name name = disk_block_name(b.list[i].id);
        if (disk_read(d, &b.list[i], r->payload) < 0) {
            r->refused++;
            continue;
        }
        r->believed++;
        disk_head_make(&head, r->disk.identity, &b.list[i], r->payload, r->disk.payload);
        memcpy(whole, &head.header, sizeof(head.header));
        memcpy(whole + sizeof(head.header), r->payload, r->disk.payload);
        ok = recorded(&r->h, name.s, whole, sizeof(head.header) + r->disk.payload) ||
             bad(r, "block %s has other bytes than were written", name.s);
    }
    free(whole);
    struct disk_stats stats;
    disk_stats_get(d, &stats);
    r->damaged += stats.damaged;
    disk_close(d);
    return ok;
}

static bool check_secret(struct replay *r)
{
    char path[NAME_MOST + 8];
    struct namespace_secret s;
    snprintf(path, sizeof(path), "%s/secret", r->state);
    bool there = access(path, F_OK) == 0;
    int e = namespace_secret_load(&s, r->state);
    if (e < 0) return bad(r, "the secret: %s", error_text(e));
    return !there || recorded(&r->h, "secret", s.bytes, sizeof(s.bytes)) || bad(r, "the secret has other bytes");
}

static struct replay *walking;

/* Files that are fsynced before they get their names have all of their bytes. */
static int check_whole(const char *path, const struct stat *st, int type, struct FTW *at)
{
    const char *name = path + at->base;
    if (type != FTW_F || !(ends_in(name, ".hobw") || ends_in(name, ".id"))) return 0;
    char *p = malloc((size_t)st->st_size + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok =
        p && read(fd, p, (size_t)st->st_size) == st->st_size && recorded(&walking->h, name, p, (size_t)st->st_size);
    close(fd);
    free(p);
    return ok ? 0 : bad(walking, "%s has other bytes than were written", name) + 1;
}

/* The parts of packed weights are removed when weights are loaded. */
static int check_leftover(const char *path, const struct stat *st, int type, struct FTW *at)
{
    const char *name = path + at->base;
    bool left = ends_in(name, ".tmp") || (ends_in(name, ".part") && !strstr(name, ".hobw") && !strstr(name, ".id"));
    return left ? bad(walking, "%s stays", name) + 1 : 0;
}

static bool walk(struct replay *r, __nftw_func_t visit)
{
    walking = r;
    return nftw(r->folder, visit, 16, FTW_PHYS) == 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return at->level == 0 ? 0 : remove(path);
}

static uint64_t build(struct replay *r, uint64_t number)
{
    uint64_t seed = r->seed + number * 1000003;
    nftw(r->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    r->now.at = 1 + (uint32_t)(crash_random(&seed) % r->h.n);
    r->now.seed = crash_random(&seed);
    int dir = open(r->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) err(1, "%s", r->folder);
    uint64_t hash = crash_build(&r->h, &r->now, dir);
    close(dir);
    return hash;
}

/* --- many states --- */

struct seen {
    uint64_t *hashes; /* [size], 0: free */
    size_t size, n;
};

/* False: the state was there before. */
static bool is_new(struct seen *s, uint64_t hash)
{
    size_t i = hash % s->size;
    for (hash |= 1; s->hashes[i] && s->hashes[i] != hash; i = (i + 1) % s->size) {
    }
    if (s->hashes[i]) return false;
    s->hashes[i] = hash;
    s->n++;
    return true;
}

static int check_all(struct replay *r, uint64_t first, uint64_t count)
{
    struct seen seen = {calloc(4 * count + 1, sizeof(*seen.hashes)), 4 * count + 1, 0};
    static struct world before, after;
    const struct request *open[WORLD_ANYTIME];
    uint64_t wrong = 0;
    uint32_t n_open;
    if (!seen.hashes) err(1, "states");
    for (uint64_t i = first; i < first + count; i++) {
        uint64_t hash = build(r, i);
        /* The same folder after more acknowledgements is another state. */
        uint64_t done = world_at(&r->s, r->now.at, &before, &after, open, &n_open);
        if (!is_new(&seen, hash ^ crash_random(&done))) continue;
        if (walk(r, check_whole) && check_blocks(r) && check_secret(r) && check_sessions(r) && walk(r, check_leftover))
            continue;
        printf("state %" PRIu64 ", %u of %u changes: %s\n", i, r->now.at, r->h.n, r->why);
        if (++wrong == 20) break;
    }
    printf("%" PRIu64 " states, %zu different, of %u changes and %u requests; %" PRIu64 " blocks believed, %" PRIu64
           " refused; %" PRIu64 " states wrong\n",
           count, seen.n, r->h.n, r->s.n, r->believed, r->damaged, wrong);
    free(seen.hashes);
    return wrong ? 1 : 0;
}

/* The sessions of a state, a line for each: its name and the texts, with a byte 31 between. */
static int print_state(struct replay *r, uint64_t number)
{
    static struct world w;
    build(r, number);
    struct session_store *s = store_open(r);
    if (!s) errx(1, "%s", r->why);
    store_read(s, &w);
    session_store_free(s);
    for (uint32_t i = 0; i < w.n; i++) {
        printf("%s", w.list[i].name);
        for (uint32_t k = 0; k < w.list[i].n; k++) printf("\x1f%s", w.list[i].texts[k]);
        printf("\n");
    }
    build(r, number);
    return 0;
}

int main(int argc, char **argv)
{
    static struct replay r;
    if (argc < 6) errx(2, "usage: replay LOG ROOT FOLDER SEED STATE [COUNT]");
    log_init("replay", LOG_ERROR);
    r.folder = argv[3];
    r.seed = strtoull(argv[4], NULL, 10);
    snprintf(r.state, sizeof(r.state), "%s/state/hob/default", r.folder);
    snprintf(r.cache, sizeof(r.cache), "%s/cache/hob/default", r.folder);
    history_read(&r.h, argv[1], strtoull(argv[2], NULL, 10));
    script_read(&r.s, &r.h);
    disk_learn(&r);
    uint64_t first = strtoull(argv[5], NULL, 10);
    int result = argc > 6 ? check_all(&r, first, strtoull(argv[6], NULL, 10)) : print_state(&r, first);
    free(r.payload);
    script_free(&r.s);
    history_free(&r.h);
    return result;
}
