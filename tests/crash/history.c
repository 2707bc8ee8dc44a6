/* SPDX-License-Identifier: MIT */
#include "tests/crash/history.h"
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- reading --- */

static void *grown(void *list, size_t n, size_t size)
{
    if (n & (n - 1)) return list; /* it doubles at powers of two */
    list = reallocarray(list, n ? 2 * n : 1, size);
    if (!list) err(1, "log");
    return list;
}

static uint32_t name_number(struct history *h, const char *s, size_t len)
{
    for (uint32_t i = 0; i < h->n_names; i++)
        if (strlen(h->names[i]) == len && memcmp(h->names[i], s, len) == 0) return i;
    h->names = grown(h->names, h->n_names, sizeof(*h->names));
    h->names[h->n_names] = strndup(s, len);
    return h->n_names++;
}

/* The objects by inode number; a number can be that of a new file when the old one is removed. */
struct inodes {
    uint64_t *numbers; /* [n], number i of object i */
    uint32_t n;
};

static uint32_t object_of(const struct inodes *x, uint64_t number)
{
    for (uint32_t i = x->n; i-- > 1;)
        if (x->numbers[i] == number) return i;
    return 0;
}

static uint32_t object_new(struct history *h, struct inodes *x, uint64_t number, bool is_dir)
{
    h->objects = grown(h->objects, h->n_objects, sizeof(*h->objects));
    x->numbers = grown(x->numbers, x->n, sizeof(*x->numbers));
    h->objects[h->n_objects++] = (struct object){.is_dir = is_dir};
    x->numbers[x->n++] = number;
    return x->n - 1;
}

static void add_write(struct object *o, uint32_t change)
{
    o->writes = grown(o->writes, o->n_writes, sizeof(*o->writes));
    o->writes[o->n_writes++] = change;
}

/* The objects of a change; of a sync, the change that began it. */
static void connect(struct history *h, struct inodes *x, struct change *c)
{
    uint32_t at = (uint32_t)(c - h->changes);
    bool made = c->r->op == RECORD_CREATE || c->r->op == RECORD_MKDIR;
    c->dir = object_of(x, c->r->dir);
    c->file = made ? object_new(h, x, c->r->file, c->r->op == RECORD_MKDIR) : object_of(x, c->r->file);
    if (c->file && (c->r->op == RECORD_WRITE || c->r->op == RECORD_SIZE)) add_write(&h->objects[c->file], at);
    if (c->r->op != RECORD_SYNC) return;
    for (c->ask = at; c->ask > 0; c->ask--) {
        const struct record *ask = h->changes[c->ask - 1].r;
        if (ask->op == RECORD_ASK && ask->thread == c->r->thread) break;
    }
    if (c->ask == 0) errx(1, "log: a sync that did not begin");
    c->ask--;
}

static char *read_all(const char *path, size_t *size)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) err(1, "%s", path);
    char *p = malloc((size_t)st.st_size + 1);
    if (!p) err(1, "%s", path);
    for (*size = 0; *size < (size_t)st.st_size;) {
        ssize_t n = read(fd, p + *size, (size_t)st.st_size - *size);
        if (n <= 0) err(1, "%s", path);
        *size += (size_t)n;
    }
    close(fd);
    return p;
}

void history_read(struct history *h, const char *path, uint64_t root)
{
    struct inodes x = {0};
    size_t size;
    *h = (struct history){0};
    h->log = read_all(path, &size);
    object_new(h, &x, 0, false);
    object_new(h, &x, root, true);
    for (size_t at = 0; at + sizeof(struct record) <= size;) {
        const struct record *r = (const void *)(h->log + at);
        const char *names = h->log + at + sizeof(*r);
        if (r->size != sizeof(*r) + r->name + r->from + r->bytes || r->size > size - at)
            errx(1, "%s: broken log", path);
        h->changes = grown(h->changes, h->n, sizeof(*h->changes));
        struct change *c = &h->changes[h->n++];
        *c = (struct change){.r = r, .bytes = names + r->name + r->from};
        c->name = name_number(h, names, r->name);
        c->from = name_number(h, names + r->name, r->from);
        connect(h, &x, c);
        at += r->size;
    }
    free(x.numbers);
}

void history_free(struct history *h)
{
    for (uint32_t i = 0; i < h->n_names; i++) free(h->names[i]);
    for (uint32_t i = 0; i < h->n_objects; i++) free(h->objects[i].writes);
    free(h->names);
    free(h->objects);
    free(h->changes);
    free(h->log);
}

void history_contents(const struct history *h, uint32_t file, uint32_t end, uint8_t **out, size_t *size)
{
    const struct object *o = &h->objects[file];
    size_t most = 1;
    for (uint32_t i = 0; i < o->n_writes; i++) {
        const struct record *r = h->changes[o->writes[i]].r;
        if (r->at + r->bytes > most) most = r->at + r->bytes;
    }
    *out = calloc(most, 1);
    *size = 0;
    if (!*out) err(1, "contents");
    for (uint32_t i = 0; i < o->n_writes && o->writes[i] < end; i++) {
        const struct change *c = &h->changes[o->writes[i]];
        size_t past = c->r->at + c->r->bytes;
        memcpy(*out + c->r->at, c->bytes, c->r->bytes);
        if (c->r->op == RECORD_SIZE && past < *size) memset(*out + past, 0, *size - past);
        if (c->r->op == RECORD_SIZE || past > *size) *size = past;
    }
}
