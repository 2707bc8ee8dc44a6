/* SPDX-License-Identifier: MIT */
#include "daemon/model/gguf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ENTRIES_MAX   (1u << 20) /* of keys and of tensors */
#define NAME_MAX_LEN  65535      /* the format's limit for keys */
#define ALIGNMENT_MAX (1u << 20)

struct gguf {
    char *path;
    struct stat stat;
    const uint8_t *map; /* [size] */
    size_t size;
    uint32_t version;
    size_t alignment, data; /* data: offset of the tensor data section */
    struct gguf_kv *kvs;
    struct gguf_tensor *tensors;
    uint64_t *offsets; /* [n_tensors] into the data section */
    size_t n_kv, n_tensors;
    uint32_t *kv_order, *tensor_order; /* indices, sorted by name */
};

struct reader {
    struct gguf *g;
    size_t at;
};

static int bad(const struct gguf *g, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int bad(const struct gguf *g, size_t at, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return error_say(-EINVAL, "%s: at byte %zu: %s", g->path, at, what);
}

void gguf_text(char *out, size_t cap, struct gguf_str s)
{
    size_t n = s.len < cap - 1 ? s.len : cap - 1;
    for (size_t i = 0; i < n; i++) out[i] = s.data[i] >= 0x20 && s.data[i] < 0x7f ? s.data[i] : '?';
    out[n] = 0;
}

struct shown {
    char s[72];
};

static struct shown show(struct gguf_str name)
{
    struct shown r;
    gguf_text(r.s, sizeof(r.s), name);
    return r;
}

/* --- reading, every step checked --- */

static int take(struct reader *r, uint64_t n, const void **p, const char *what)
{
    size_t left = r->g->size - r->at;
    if (n > left)
        return bad(r->g, r->at, "%s needs %llu bytes, the file has only %zu more", what, (unsigned long long)n, left);
    *p = r->g->map + r->at;
    r->at += n;
    return 0;
}

static int take_u32(struct reader *r, uint32_t *v, const char *what)
{
    const void *p = NULL;
    int e = take(r, 4, &p, what);
    if (!e) memcpy(v, p, 4);
    return e;
}

static int take_u64(struct reader *r, uint64_t *v, const char *what)
{
    const void *p = NULL;
    int e = take(r, 8, &p, what);
    if (!e) memcpy(v, p, 8);
    return e;
}

static int take_str(struct reader *r, struct gguf_str *s, const char *what)
{
    uint64_t len = 0;
    const void *p = NULL;
    int e = take_u64(r, &len, what);
    if (!e) e = take(r, len, &p, what);
    if (e) return e;
    s->data = p;
    s->len = len;
    return 0;
}

static int take_name(struct reader *r, struct gguf_str *s, const char *what)
{
    size_t at = r->at;
    int e = take_str(r, s, what);
    if (e) return e;
    if (!s->len || s->len > NAME_MAX_LEN || memchr(s->data, 0, s->len))
        return bad(r->g, at, "%s is empty, longer than %d bytes, or has a zero byte in it", what, NAME_MAX_LEN);
    return 0;
}

/* Bytes of a value of fixed size, 0 for strings and arrays. */
static size_t value_size(enum gguf_type t)
{
    static const uint8_t size[GGUF_TYPES] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
        [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return size[t];
}

static int take_type(struct reader *r, enum gguf_type *t, const struct gguf_kv *kv, const char *what)
{
    uint32_t v = 0;
    size_t at = r->at;
    int e = take_u32(r, &v, what);
    if (e) return e;
    if (v >= GGUF_TYPES) return bad(r->g, at, "key '%s' has the unknown value type %u", show(kv->key).s, v);
    *t = (enum gguf_type)v;
    return 0;
}

static int read_array(struct reader *r, struct gguf_kv *kv)
{
    const struct gguf *g = r->g;
    size_t at = r->at;
    int e = take_type(r, &kv->elem, kv, "an array's type");
    if (!e) e = take_u64(r, &kv->n, "an array's length");
    if (e) return e;
    if (kv->elem == GGUF_ARRAY) return bad(g, at, "key '%s' is an array of arrays", show(kv->key).s);
    size_t left = g->size - r->at, least = kv->elem == GGUF_STRING ? 8 : value_size(kv->elem);
    if (kv->n > left / least)
        return bad(g, at, "key '%s' says %llu elements, the file has only %zu more bytes", show(kv->key).s,
                   (unsigned long long)kv->n, left);
    kv->value = g->map + r->at;
    if (kv->elem != GGUF_STRING) {
        r->at += kv->n * least;
        return 0;
    }
    char what[96];
    struct gguf_str s;
    snprintf(what, sizeof(what), "a string of key '%s'", show(kv->key).s);
    for (uint64_t i = 0; !e && i < kv->n; i++) e = take_str(r, &s, what);
    return e;
}

static int read_kv(struct reader *r, struct gguf_kv *kv)
{
    struct gguf_str s;
    int e = take_name(r, &kv->key, "a key's name");
    if (!e) e = take_type(r, &kv->type, kv, "a value's type");
    if (e) return e;
    kv->n = 1;
    if (kv->type == GGUF_ARRAY) return read_array(r, kv);
    char what[96];
    snprintf(what, sizeof(what), "the value of key '%s'", show(kv->key).s);
    size_t at = r->at;
    kv->value = r->g->map + at;
    e = kv->type == GGUF_STRING ? take_str(r, &s, what) : take(r, value_size(kv->type), &kv->value, what);
    if (e) return e;
    if (kv->type == GGUF_BOOL && *(const uint8_t *)kv->value > 1)
        return bad(r->g, at, "key '%s' is a boolean with the value %u", show(kv->key).s, *(const uint8_t *)kv->value);
    return 0;
}

/* Everything about a tensor but where its data is. */
static int read_tensor(struct reader *r, struct gguf_tensor *t, uint64_t *offset)
{
    const struct gguf *g = r->g;
    int e = take_name(r, &t->name, "a tensor's name");
    if (e) return e;
    size_t at = r->at;
    e = take_u32(r, &t->n_dims, "a tensor's number of dimensions");
    if (e) return e;
    if (t->n_dims < 1 || t->n_dims > 4)
        return bad(g, at, "tensor '%s' has %u dimensions, not 1 to 4", show(t->name).s, t->n_dims);
    uint64_t values = 1;
    for (uint32_t i = 0; i < 4; i++) {
        t->dims[i] = 1;
        if (i < t->n_dims) e = take_u64(r, &t->dims[i], "a tensor's dimension");
        if (e) return e;
        if (!t->dims[i]) return bad(g, at, "tensor '%s' has a dimension of 0", show(t->name).s);
        if (__builtin_mul_overflow(values, t->dims[i], &values) || values > INT64_MAX)
            return bad(g, at, "the dimensions of tensor '%s' multiply to more than 2^63", show(t->name).s);
    }
    at = r->at;
    e = take_u32(r, &t->type, "a tensor's type");
    if (!e) e = take_u64(r, offset, "a tensor's offset");
    if (e) return e;
    uint32_t block, bytes;
    const char *type = gguf_tensor_type_name(t->type, &block, &bytes);
    if (!type) return 0;
    if (t->dims[0] % block)
        return bad(g, at, "tensor '%s' has rows of %llu values, no multiple of %s's %u", show(t->name).s,
                   (unsigned long long)t->dims[0], type, block);
    if (__builtin_mul_overflow(values / block, (uint64_t)bytes, &t->size))
        return bad(g, at, "the size of tensor '%s' is more than 2^64 bytes", show(t->name).s);
    return 0;
}

/* --- names --- */

/* The entries of a sorted index begin with their name; @base and @stride say where they are. */
struct names {
    const void *base;
    size_t stride;
};

static const struct gguf_str *name_at(const struct names *n, uint32_t i)
{
    return (const struct gguf_str *)((const char *)n->base + i * n->stride);
}

static int compare(const struct gguf_str *a, const struct gguf_str *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->data, b->data, n);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

static int compare_at(const void *a, const void *b, void *names)
{
    return compare(name_at(names, *(const uint32_t *)a), name_at(names, *(const uint32_t *)b));
}

static int sort_names(const struct gguf *g, uint32_t **out, const void *base, size_t stride, size_t n, const char *what)
{
    struct names names = {base, stride};
    uint32_t *order = malloc((n + 1) * sizeof(*order));
    if (!order) return error_say(-ENOMEM, "%s: out of memory: an index of %zu names", g->path, n);
    *out = order;
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof(*order), compare_at, &names);
    for (size_t i = 1; i < n; i++)
        if (!compare_at(&order[i - 1], &order[i], &names)) {
            const struct gguf_str *s = name_at(&names, order[i]);
            return bad(g, (size_t)((const uint8_t *)s->data - g->map), "%s '%s' is there twice", what, show(*s).s);
        }
    return 0;
}

static const void *find(const void *base, size_t stride, const uint32_t *order, size_t n, const char *name)
{
    struct names names = {base, stride};
    struct gguf_str key = {name, strlen(name)};
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = compare(&key, name_at(&names, order[mid]));
        if (!c) return name_at(&names, order[mid]);
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

/* --- the parts of the file --- */

static int read_header(struct reader *r)
{
    struct gguf *g = r->g;
    const void *magic;
    uint64_t n_tensors = 0, n_kv = 0;
    if (g->size < 4 || memcmp(g->map, "GGUF", 4))
        return error_say(-EINVAL, "%s: not a GGUF file (it does not begin with \"GGUF\")", g->path);
    int e = take(r, 4, &magic, "the magic");
    if (!e) e = take_u32(r, &g->version, "the version");
    if (e) return e;
    if (g->version & 0xffff0000 && !(g->version & 0xffff))
        return error_say(-EINVAL, "%s: a big-endian GGUF file; only little-endian ones can be read", g->path);
    if (g->version != 2 && g->version != 3)
        return error_say(-EINVAL, "%s: GGUF version %u; only 2 and 3 can be read", g->path, g->version);
    e = take_u64(r, &n_tensors, "the number of tensors");
    if (!e) e = take_u64(r, &n_kv, "the number of keys");
    if (e) return e;
    if (n_kv > ENTRIES_MAX || n_kv > (g->size - r->at) / 13)
        return bad(g, 16, "the header says %llu keys, which %zu bytes cannot hold", (unsigned long long)n_kv, g->size);
    if (n_tensors > ENTRIES_MAX || n_tensors > (g->size - r->at) / 33)
        return bad(g, 8, "the header says %llu tensors, which %zu bytes cannot hold", (unsigned long long)n_tensors,
                   g->size);
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

/* Give every tensor its data: aligned, inside the file, none over another. */
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
            return bad(g, g->data, "tensor '%s' is at offset %llu of the data, no multiple of the alignment %zu",
                       show(t->name).s, at, g->alignment);
        if (at > section || size > section - at)
            return bad(g, g->data, "tensor '%s' is %llu bytes at offset %llu of the data, which has only %zu bytes",
                       show(t->name).s, size, at, section);
        t->data = size ? g->map + g->data + at : NULL;
    }
    qsort_r(order, g->n_tensors, sizeof(*order), compare_offsets, g);
    for (size_t i = 1; i < g->n_tensors; i++) {
        uint32_t a = order[i - 1], b = order[i];
        if (g->offsets[b] < g->offsets[a] + g->tensors[a].size)
            return bad(g, g->data + g->offsets[b], "tensors '%s' and '%s' overlap", show(g->tensors[a].name).s,
                       show(g->tensors[b].name).s);
    }
    return 0;
}

static int parse(struct gguf *g)
{
    struct reader r = {g, 0};
    int e = read_header(&r);
    for (size_t i = 0; !e && i < g->n_kv; i++) e = read_kv(&r, &g->kvs[i]);
    if (!e) e = sort_names(g, &g->kv_order, g->kvs, sizeof(*g->kvs), g->n_kv, "key");
    if (!e) e = read_alignment(g);
    for (size_t i = 0; !e && i < g->n_tensors; i++) e = read_tensor(&r, &g->tensors[i], &g->offsets[i]);
    if (!e) e = sort_names(g, &g->tensor_order, g->tensors, sizeof(*g->tensors), g->n_tensors, "tensor");
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

int gguf_open(struct gguf **out, const char *path)
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

struct gguf *gguf_close(struct gguf *g)
{
    if (!g) return NULL;
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
    return g->size;
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
    return find(g->kvs, sizeof(*g->kvs), g->kv_order, g->n_kv, key);
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
    return find(g->tensors, sizeof(*g->tensors), g->tensor_order, g->n_tensors, name);
}
