/* SPDX-License-Identifier: MIT */
/* The folders that a crash may leave. */
#include "tests/crash/history.h"
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

uint64_t crash_random(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t below(uint64_t *seed, uint64_t n)
{
    return crash_random(seed) % n;
}

/* For each object, the changes before this one are on the disk. The caller frees it. */
static uint32_t *synced(const struct history *h, uint32_t at)
{
    uint32_t *until = calloc(h->n_objects, sizeof(*until));
    if (!until) err(1, "state");
    for (uint32_t i = 0; i < at; i++) {
        const struct change *c = &h->changes[i];
        if (c->r->op == RECORD_SYNC && c->file && until[c->file] < c->ask) until[c->file] = c->ask;
    }
    return until;
}

/* --- names --- */

struct tree {
    struct entry *list; /* [n] */
    uint32_t n;
};

static void tree_set(struct tree *t, uint32_t dir, uint32_t name, uint32_t file)
{
    uint32_t i = 0;
    while (i < t->n && (t->list[i].dir != dir || t->list[i].name != name)) i++;
    if (i == t->n && file) t->list[t->n++] = (struct entry){dir, name, file};
    if (i < t->n && file) t->list[i].file = file;
    if (i < t->n && !file) t->list[i] = t->list[--t->n];
}

static bool names_change(const struct change *c)
{
    return c->dir && c->r->op >= RECORD_CREATE && c->r->op <= RECORD_UNLINK;
}

static void tree_apply(struct tree *t, const struct change *c)
{
    if (c->r->op == RECORD_RENAME) tree_set(t, c->dir, c->from, 0);
    tree_set(t, c->dir, c->name, c->r->op == RECORD_UNLINK ? 0 : c->file);
}

/* A journal has all changes of names up to some moment. Without one each may be there alone, more or less often. */
static void tree_build(struct tree *t, const struct history *h, uint32_t at, const uint32_t *until, uint64_t *seed)
{
    uint32_t last = 0, often = (uint32_t)below(seed, 5);
    bool journal = below(seed, 2);
    for (uint32_t i = 0; i < at; i++)
        if (names_change(&h->changes[i]) && i < until[h->changes[i].dir]) last = i;
    uint32_t cut = last + 1 + (uint32_t)below(seed, at - last ? at - last : 1);
    if (below(seed, 4) == 0) cut = at;
    for (uint32_t i = 0; i < at; i++) {
        const struct change *c = &h->changes[i];
        if (!names_change(c)) continue;
        if (i < until[c->dir] || (journal ? i < cut : below(seed, 4) < often)) tree_apply(t, c);
    }
}

uint32_t crash_pending(const struct history *h, uint32_t at)
{
    uint32_t n = 0, *until = synced(h, at);
    for (uint32_t i = 0; i < at; i++) {
        const struct change *c = &h->changes[i];
        uint32_t of = names_change(c) ? c->dir : c->r->op == RECORD_WRITE || c->r->op == RECORD_SIZE ? c->file : 0;
        n += of && i >= until[of];
    }
    free(until);
    return n;
}

/* --- contents --- */

/* Files that no name has are skipped, so that a state takes little time. */
enum how { NOTHING, ALL, FIRST, SOME, ZEROS, GARBAGE, HOWS };

static void fill(uint8_t *p, size_t n, enum how how, uint64_t *seed)
{
    uint64_t x = crash_random(seed);
    if (how != GARBAGE) {
        memset(p, 0, n);
        return;
    }
    for (size_t i = 0; i < n; i++, x = x * 6364136223846793005u + 1442695040888963407u) p[i] = (uint8_t)(x >> 56);
}

/* Some of the units of a write, or its beginning. */
static void torn(uint8_t *to, const struct change *c, uint64_t *seed)
{
    static const size_t units[] = {1, 7, 512, 4096};
    size_t unit = units[below(seed, 4)], n = c->r->bytes;
    size_t keep = unit * below(seed, n / unit + 1);
    if (unit < 512 || below(seed, 2)) {
        memcpy(to, c->bytes, keep < n ? keep : n);
        return;
    }
    /* Sectors begin at offsets of the file. */
    for (size_t i = 0; i < n;) {
        size_t end = (c->r->at + i) / unit * unit + unit - c->r->at;
        if (end > n) end = n;
        if (below(seed, 2)) memcpy(to + i, c->bytes + i, end - i);
        i = end;
    }
}

/* Apply the changes of contents in the writes [from, to) that no sync covers. */
static void contents_pending(const struct history *h, const struct object *o, uint32_t from, uint32_t to, uint8_t *p,
                             size_t *size, uint64_t *seed)
{
    enum how how = (enum how)below(seed, HOWS);
    uint32_t last = from + (uint32_t)below(seed, to - from + 1);
    for (uint32_t i = from; i < to; i++) {
        const struct change *c = &h->changes[o->writes[i]];
        const struct record *r = c->r;
        bool whole = how == ALL || (how == FIRST && i < last) || (how == SOME && below(seed, 2));
        if (how == NOTHING || (how == FIRST && i > last)) continue;
        if (how == SOME && !whole && below(seed, 3) == 0) continue;
        if (r->op == RECORD_SIZE) {
            if (r->at > *size) fill(p + *size, r->at - *size, how, seed);
            *size = r->at;
            continue;
        }
        /* The size may have reached the disk and the data not. */
        size_t past = r->at + r->bytes, old = *size;
        if (past > old) fill(p + old, past - old, below(seed, 2) ? GARBAGE : how, seed);
        if (past > old) *size = past;
        if (whole)
            memcpy(p + r->at, c->bytes, r->bytes);
        else if (how == FIRST || how == SOME)
            torn(p + r->at, c, seed);
        if (how == FIRST && !whole && below(seed, 2) && *size == past && past > old)
            *size = old + below(seed, past - old + 1);
    }
}

static void contents(const struct history *h, uint32_t file, uint32_t at, uint32_t until, uint64_t *seed, uint8_t **out,
                     size_t *size)
{
    const struct object *o = &h->objects[file];
    uint32_t from = 0, to = 0;
    history_contents(h, file, until < at ? until : at, out, size);
    while (from < o->n_writes && o->writes[from] < until) from++;
    to = from;
    while (to < o->n_writes && o->writes[to] < at) to++;
    if (to > from) contents_pending(h, o, from, to, *out, size, seed);
}

/* --- the folder --- */

struct builder {
    const struct history *h;
    const struct tree *t;
    const uint32_t *until;
    uint32_t at;
    uint64_t seed, hash;
    int *made; /* [n_objects] a directory with a name of the file, 0: none yet */
    const char **as;
};

static void build_file(struct builder *b, int dir, const struct entry *e)
{
    const char *name = b->h->names[e->name];
    uint8_t *p;
    size_t size;
    if (b->made[e->file]) {
        if (linkat(b->made[e->file], b->as[e->file], dir, name, 0) < 0) err(1, "%s", name);
        return;
    }
    contents(b->h, e->file, b->at, b->until[e->file], &b->seed, &p, &size);
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, p, size) != (ssize_t)size) err(1, "%s", name);
    b->hash ^= XXH3_64bits_withSeed(p, size, XXH3_64bits(name, strlen(name)));
    close(fd);
    free(p);
    b->made[e->file] = dir;
    b->as[e->file] = name;
}

/* Directories stay open until the end, for links. */
static void build_dir(struct builder *b, int dir, uint32_t object)
{
    for (uint32_t i = 0; i < b->t->n; i++) {
        const struct entry *e = &b->t->list[i];
        if (e->dir != object) continue;
        if (!b->h->objects[e->file].is_dir) {
            build_file(b, dir, e);
            continue;
        }
        const char *name = b->h->names[e->name];
        if (mkdirat(dir, name, 0700) < 0) err(1, "%s", name);
        int sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (sub < 0) err(1, "%s", name);
        b->hash ^= XXH3_64bits(name, strlen(name));
        b->made[e->file] = sub;
        build_dir(b, sub, e->file);
    }
}

uint64_t crash_build(const struct history *h, const struct crash *c, int dir)
{
    struct builder b = {.h = h, .at = c->at, .seed = c->seed, .until = synced(h, c->at)};
    struct tree t = {calloc(c->at + 1, sizeof(*t.list)), 0};
    b.made = calloc(h->n_objects, sizeof(*b.made));
    b.as = calloc(h->n_objects, sizeof(*b.as));
    if (!t.list || !b.made || !b.as) err(1, "state");
    tree_build(&t, h, c->at, b.until, &b.seed);
    b.t = &t;
    build_dir(&b, dir, 1);
    for (uint32_t i = 0; i < h->n_objects; i++)
        if (b.made[i] && h->objects[i].is_dir) close(b.made[i]);
    free((void *)(uintptr_t)b.until);
    free((void *)b.as);
    free(b.made);
    free(t.list);
    return b.hash;
}
