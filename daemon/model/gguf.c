/* SPDX-License-Identifier: MIT */
#include "daemon/model/gguf-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ALIGNMENT_MAX (1u << 20)

static int read_header(struct gguf_reader *r)
{
    struct gguf *g = r->g;
    const void *magic;
    uint64_t n_tensors = 0, n_kv = 0;
    if (g->size < 4 || memcmp(g->map, "GGUF", 4) != 0)
        return error_say(-EINVAL, "%s: not a GGUF file (it does not begin with \"GGUF\")", g->path);
    int e = gguf_read_bytes(r, 4, &magic, "the magic");
    if (!e) e = gguf_read_u32(r, &g->version, "the version");
    if (e) return e;
    if (g->version & 0xffff0000 && !(g->version & 0xffff))
        return error_say(-EINVAL, "%s: big-endian GGUF files are not supported, only little-endian files", g->path);
    if (g->version != 2 && g->version != 3)
        return error_say(-EINVAL, "%s: GGUF version %u is not supported, only 2 and 3", g->path, g->version);
    e = gguf_read_u64(r, &n_tensors, "the number of tensors");
    if (!e) e = gguf_read_u64(r, &n_kv, "the number of keys");
    if (e) return e;
    if (n_kv > GGUF_ENTRIES_MAX || n_kv > (g->size - r->at) / 13)
        return gguf_bad(g, 16, "the header has %llu keys, too many for a file of %zu bytes", (unsigned long long)n_kv,
                        g->size);
    if (n_tensors > GGUF_ENTRIES_MAX || n_tensors > (g->size - r->at) / 33)
        return gguf_bad(g, 8, "the header has %llu tensors, too many for a file of %zu bytes",
                        (unsigned long long)n_tensors, g->size);
    g->n_kv = n_kv;
    g->n_tensors = n_tensors;
    g->kvs = calloc(n_kv + 1, sizeof(*g->kvs));
    g->tensors = calloc(n_tensors + 1, sizeof(*g->tensors));
    g->offsets = calloc(n_tensors + 1, sizeof(*g->offsets));
    if (!g->kvs || !g->tensors || !g->offsets)
        return error_say(-ENOMEM, "%s: out of memory: a directory of %zu keys and %zu tensors", g->path, g->n_kv,
                         g->n_tensors);
    return 0;
}

static int read_alignment(struct gguf *g)
{
    uint32_t a = 32;
    int e = gguf_get_u32(g, "general.alignment", &a);
    if (e < 0) return e;
    if (a < 8 || a > ALIGNMENT_MAX || a & (a - 1))
        return error_say(-EINVAL, "%s: general.alignment is %u, not a power of two from 8 to %u", g->path, a,
                         ALIGNMENT_MAX);
    g->alignment = a;
    return 0;
}

static int compare_offsets(const void *a, const void *b, void *arg)
{
    const struct gguf *g = arg;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    uint64_t x = g->offsets[i], y = g->offsets[j];
    if (x != y) return x < y ? -1 : 1;
    return (g->tensors[i].size > g->tensors[j].size) - (g->tensors[i].size < g->tensors[j].size);
}

/* Set the data of every tensor. Data must be aligned, inside the file, and must not overlap. */
static int place_tensors(struct gguf *g)
{
    size_t section = g->data < g->size ? g->size - g->data : 0;
    _cleanup_(freep) uint32_t *order = malloc((g->n_tensors + 1) * sizeof(*order));
    if (!order) return error_say(-ENOMEM, "%s: out of memory: an index of %zu tensors", g->path, g->n_tensors);
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        unsigned long long at = g->offsets[i], size = t->size;
        order[i] = (uint32_t)i;
        if (at % g->alignment)
            return gguf_bad(g, g->data, "tensor '%s' is at offset %llu of the data, no multiple of the alignment %zu",
                            gguf_show(t->name).s, at, g->alignment);
        if (at > section || size > section - at)
            return gguf_bad(g, g->data,
                            "tensor '%s' is %llu bytes at offset %llu of the data, which has only %zu bytes",
                            gguf_show(t->name).s, size, at, section);
        t->data = size ? g->map + g->data + at : NULL;
    }
    qsort_r(order, g->n_tensors, sizeof(*order), compare_offsets, g);
    for (size_t i = 1; i < g->n_tensors; i++) {
        uint32_t a = order[i - 1], b = order[i];
        if (g->offsets[b] < g->offsets[a] + g->tensors[a].size)
            return gguf_bad(g, g->data + g->offsets[b], "tensors '%s' and '%s' overlap",
                            gguf_show(g->tensors[a].name).s, gguf_show(g->tensors[b].name).s);
    }
    return 0;
}

static struct gguf_names kv_names(const struct gguf *g)
{
    return (struct gguf_names){g->kvs, sizeof(*g->kvs), g->n_kv};
}

static struct gguf_names tensor_names(const struct gguf *g)
{
    return (struct gguf_names){g->tensors, sizeof(*g->tensors), g->n_tensors};
}

int gguf_tensors_sort(struct gguf *g)
{
    free(g->tensor_order);
    g->tensor_order = NULL;
    return gguf_names_sort(g, &g->tensor_order, tensor_names(g), "tensor");
}

static int parse(struct gguf *g)
{
    struct gguf_reader r = {g, 0};
    int e = read_header(&r);
    for (size_t i = 0; !e && i < g->n_kv; i++) e = gguf_read_kv(&r, &g->kvs[i]);
    if (!e) e = gguf_names_sort(g, &g->kv_order, kv_names(g), "key");
    if (!e) e = read_alignment(g);
    for (size_t i = 0; !e && i < g->n_tensors; i++) e = gguf_read_tensor(&r, &g->tensors[i], &g->offsets[i]);
    if (!e) e = gguf_tensors_sort(g);
    if (e) return e;
    g->data = (r.at + g->alignment - 1) & ~(g->alignment - 1);
    return place_tensors(g);
}

static int map(struct gguf *g)
{
    struct stat st;
    /* Not blocking: the path may name a pipe, which is refused below. */
    _cleanup_(closep) int fd = open(g->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int r = -errno;
        return error_say(r, "%s: %s", g->path, strerror(-r));
    }
    if (!S_ISREG(st.st_mode)) return error_say(-EINVAL, "%s: not a regular file", g->path);
    if (!st.st_size) return error_say(-EINVAL, "%s: the file is empty", g->path);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
        int r = -errno;
        return error_say(r, "%s: cannot map %lld bytes: %s", g->path, (long long)st.st_size, strerror(-r));
    }
    g->map = p;
    g->size = (size_t)st.st_size;
    g->stat = st;
    return 0;
}

int gguf_open_file(struct gguf **out, const char *path)
{
    struct gguf *g = calloc(1, sizeof(*g));
    if (!g || !(g->path = strdup(path))) {
        free(g);
        return error_say(-ENOMEM, "%s: out of memory", path);
    }
    int e = map(g);
    if (!e) e = parse(g);
    if (e) {
        gguf_close(g);
        return e;
    }
    *out = g;
    return 0;
}

/* A file with keys can be read without the other parts. */
int gguf_open(struct gguf **out, const char *path)
{
    struct gguf *g;
    int e = gguf_open_file(&g, path);
    if (e) return e;
    e = gguf_parts_join(g);
    if (e == -ENOMEM) {
        gguf_close(g);
        return e;
    }
    if (e) {
        g->incomplete_errno = e;
        g->incomplete = strdup(error_text(e));
        if (!g->incomplete) {
            gguf_close(g);
            return error_say(-ENOMEM, "%s: out of memory", path);
        }
    }
    *out = g;
    return 0;
}

struct gguf *gguf_close(struct gguf *g)
{
    if (!g) return NULL;
    gguf_parts_close(g);
    free(g->incomplete);
    if (g->map) munmap((void *)g->map, g->size);
    free(g->kv_order);
    free(g->tensor_order);
    free(g->kvs);
    free(g->tensors);
    free(g->offsets);
    free(g->path);
    free(g);
    return NULL;
}

const char *gguf_path(const struct gguf *g)
{
    return g->path;
}

const struct stat *gguf_stat(const struct gguf *g)
{
    return &g->stat;
}

uint64_t gguf_file_size(const struct gguf *g)
{
    uint64_t bytes = g->size;
    for (uint32_t i = 0; i < g->n_others; i++) bytes += g->others[i]->size;
    return bytes;
}

uint32_t gguf_version(const struct gguf *g)
{
    return g->version;
}

size_t gguf_n_kv(const struct gguf *g)
{
    return g->n_kv;
}

const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i)
{
    return i < g->n_kv ? &g->kvs[i] : NULL;
}

size_t gguf_n_tensors(const struct gguf *g)
{
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    return i < g->n_tensors ? &g->tensors[i] : NULL;
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
    return gguf_names_find(kv_names(g), g->kv_order, key);
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
    return gguf_names_find(tensor_names(g), g->tensor_order, name);
}
