/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/fuzz-edit.h"
#include "daemon/model/gguf-file.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHANGES_MAX = 16 };

uint64_t fuzz_number(struct fuzz_input *in)
{
    static const uint64_t limits[] = {0,          1,
                                      2,          3,
                                      31,         32,
                                      33,         0x7f,
                                      0xff,       0x100,
                                      0x7fff,     0xffff,
                                      0x7ffffff,  0x7fffffff,
                                      0x80000000, 0xffffffff,
                                      1ull << 32, 1ull << 40,
                                      1ull << 62, 1ull << 63,
                                      UINT64_MAX, UINT64_MAX - 31,
                                      0x7fc00000, 0xff800000};
    enum { N = sizeof(limits) / sizeof(*limits) };
    unsigned which = fuzz_byte(in);
    if (which < N) return limits[which];
    if (which < 128) return fuzz_short(in);
    return (uint64_t)fuzz_short(in) << (which & 63);
}

static void put(struct buf *b, size_t at, const void *bytes, size_t n)
{
    if (at < b->len) memcpy(b->data + at, bytes, n < b->len - at ? n : b->len - at);
}

static void put_number(struct buf *b, size_t at, size_t n, uint64_t v)
{
    put(b, at, &v, n < 8 ? n : 8);
}

void fuzz_gguf_find(struct fuzz_gguf *g)
{
    struct fuzz_path path;
    struct gguf *f;
    int fd = fuzz_file(g->file.data, g->file.len, &path);
    if (gguf_open(&f, path.s) != 0) fuzz_fail("the file", error_text(-22));
    g->n_keys = f->n_kv;
    g->n_tensors = f->n_tensors;
    g->places = calloc(f->n_kv + f->n_tensors, sizeof(*g->places));
    FUZZ_CHECK(g->places);
    for (size_t i = 0; i < f->n_kv; i++) {
        const struct gguf_kv *kv = &f->kvs[i];
        size_t value = (size_t)((const uint8_t *)kv->value - f->map);
        size_t next = i + 1 < f->n_kv ? (size_t)((const uint8_t *)f->kvs[i + 1].key.data - f->map) - 8 : value + 8;
        g->places[i] = (struct fuzz_place){.name = (size_t)((const uint8_t *)kv->key.data - f->map),
                                           .name_len = kv->key.len,
                                           .value = value,
                                           .size = next - value,
                                           .fields = value - (kv->type == GGUF_ARRAY ? 16 : 4)};
    }
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct gguf_tensor *t = &f->tensors[i];
        size_t name = (size_t)((const uint8_t *)t->name.data - f->map);
        g->places[f->n_kv + i] = (struct fuzz_place){.name = name,
                                                     .name_len = t->name.len,
                                                     .fields = name + t->name.len,
                                                     .n_dims = t->n_dims,
                                                     .value = (size_t)((const uint8_t *)t->data - f->map),
                                                     .size = t->size};
    }
    gguf_close(f);
    close(fd);
}

static void edit_key(const struct fuzz_place *p, unsigned how, struct fuzz_input *in, struct buf *b)
{
    size_t size = p->size ? p->size : 1, n = 1 + how % 8;
    const char *bytes;
    switch (how >> 6) {
    case 0: /* some bytes of the value */
        size = fuzz_short(in) % size;
        bytes = fuzz_bytes(in, &n);
        put(b, p->value + size, bytes, n);
        break;
    case 1: /* a number in place of the value */
        put_number(b, p->value, p->size, fuzz_number(in));
        break;
    case 2: /* its type, or those of an array, or its length */
        put_number(b, p->fields + (how & 4 ? 4 : 0), how & 8 ? 8 : 4, fuzz_number(in));
        break;
    default: /* its name */
        put_number(b, p->name + fuzz_byte(in) % (p->name_len ? p->name_len : 1), 1, fuzz_byte(in));
    }
}

static void edit_tensor(const struct fuzz_place *p, unsigned how, struct fuzz_input *in, struct buf *b)
{
    size_t dims = p->fields + 4, type = dims + 8ul * p->n_dims;
    switch (how >> 5) {
    case 0: /* the number of dimensions */
        put_number(b, p->fields, 4, fuzz_number(in));
        break;
    case 1:
    case 2:
        put_number(b, dims + 8ul * (how % (p->n_dims ? p->n_dims : 1)), 8, fuzz_number(in));
        break;
    case 3:
        put_number(b, type, 4, fuzz_byte(in));
        break;
    case 4:
        put_number(b, type + 4, 8, how & 1 ? fuzz_number(in) : 32ul * fuzz_short(in));
        break;
    case 5: /* its name */
        put_number(b, p->name + fuzz_byte(in) % (p->name_len ? p->name_len : 1), 1, fuzz_byte(in));
        break;
    default: /* its data */
        put_number(b, p->value + fuzz_short(in) % (p->size ? p->size : 1), 4, fuzz_number(in));
    }
}

void fuzz_gguf_edit(const struct fuzz_gguf *g, struct fuzz_input *in, struct buf *out)
{
    FUZZ_CHECK(buf_append(out, g->file.data, g->file.len) == 0);
    for (int i = 0; i < CHANGES_MAX && in->n; i++) {
        unsigned what = fuzz_byte(in);
        if (what == 0) return;
        if (what < 96) {
            const struct fuzz_place *p = &g->places[fuzz_byte(in) % g->n_keys];
            edit_key(p, fuzz_byte(in), in, out);
        } else if (what < 224) {
            const struct fuzz_place *p = &g->places[g->n_keys + fuzz_short(in) % g->n_tensors];
            edit_tensor(p, fuzz_byte(in), in, out);
        } else if (what < 240) { /* the numbers of keys and tensors, the version */
            put_number(out, what % 24, 8, fuzz_number(in));
        } else if (what < 250) { /* any byte */
            put_number(out, fuzz_short(in) % out->len, 1, fuzz_byte(in));
        } else {
            out->len = out->len * fuzz_short(in) / 65536;
            if (!out->len) return;
        }
    }
}

void fuzz_edit(struct buf *b, struct fuzz_input *in)
{
    for (int i = 0; i < CHANGES_MAX && in->n && b->len; i++) {
        unsigned what = fuzz_byte(in);
        size_t at = fuzz_short(in) % b->len, n = 1 + what % 16;
        const char *bytes;
        if (what == 0) return;
        switch (what >> 5) {
        case 0: /* cut */
            b->len = at;
            break;
        case 1: /* a number */
            put_number(b, at, what & 1 ? 8 : 4, fuzz_number(in));
            break;
        case 2: /* removed bytes */
            if (n > b->len - at) n = b->len - at;
            memmove(b->data + at, b->data + at + n, b->len - at - n);
            b->len -= n;
            break;
        case 3: /* bytes of another place */
            if (n > b->len - at) n = b->len - at;
            memmove(b->data + fuzz_short(in) % (b->len - n + 1), b->data + at, n);
            break;
        case 4: /* inserted bytes */
            bytes = fuzz_bytes(in, &n);
            FUZZ_CHECK(buf_reserve(b, n) == 0);
            memmove(b->data + at + n, b->data + at, b->len - at);
            if (n) memcpy(b->data + at, bytes, n);
            b->len += n;
            break;
        default:
            bytes = fuzz_bytes(in, &n);
            if (n) put(b, at, bytes, n);
        }
    }
}
