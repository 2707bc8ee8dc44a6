/* SPDX-License-Identifier: MIT */
#include "tests/model/model-file.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

char *model_file_write(const void *bytes, size_t n)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof(path), "%s/hob-model-XXXXXX", dir ? dir : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    return strdup(path);
}

int model_file_open(struct gguf **out, const void *bytes, size_t n)
{
    char *path = model_file_write(bytes, n);
    int r = gguf_open(out, path);
    if (r < 0) assert_non_null(strstr(error_text(r), path));
    unlink(path);
    free(path);
    return r;
}

void model_file_tiny_bytes(struct buf *out, const struct tiny *t)
{
    char *path = model_file_write("", 0);
    struct tiny own;
    tiny_init(&own);
    assert_int_equal(tiny_write(t ? t : &own, path), 0);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char piece[65536];
    for (size_t n; (n = fread(piece, 1, sizeof(piece), f));) assert_int_equal(buf_append(out, piece, n), 0);
    fclose(f);
    unlink(path);
    free(path);
}

struct gguf *model_file_tiny(const struct tiny *t)
{
    struct buf b = BUF_INIT;
    struct gguf *g = NULL;
    model_file_tiny_bytes(&b, t);
    int r = model_file_open(&g, b.data, b.len);
    if (r < 0) fail_msg("%s", error_text(r));
    buf_fini(&b);
    return g;
}

size_t model_file_find(const struct buf *b, const char *what)
{
    const char *p = memmem(b->data, b->len, what, strlen(what));
    assert_non_null(p);
    return (size_t)(p - b->data);
}

void put_u32(struct buf *b, uint32_t v)
{
    assert_int_equal(buf_append(b, &v, 4), 0);
}

void put_u64(struct buf *b, uint64_t v)
{
    assert_int_equal(buf_append(b, &v, 8), 0);
}

void put_str(struct buf *b, const char *s)
{
    put_u64(b, strlen(s));
    assert_int_equal(buf_append(b, s, strlen(s)), 0);
}

void put_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    assert_int_equal(buf_append(b, "GGUF", 4), 0);
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_kv);
}

void put_key_u32(struct buf *b, const char *key, uint32_t v)
{
    put_str(b, key);
    put_u32(b, GGUF_U32);
    put_u32(b, v);
}

void put_key_f32(struct buf *b, const char *key, float v)
{
    put_str(b, key);
    put_u32(b, GGUF_F32);
    assert_int_equal(buf_append(b, &v, 4), 0);
}

void put_key_str(struct buf *b, const char *key, const char *v)
{
    put_str(b, key);
    put_u32(b, GGUF_STRING);
    put_str(b, v);
}

void put_tensor(struct buf *b, const char *name, uint32_t type, uint64_t offset, uint32_t n_dims, const uint64_t *dims)
{
    put_str(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) put_u64(b, dims[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

void put_zeros(struct buf *b, size_t n)
{
    while (n--) assert_int_equal(buf_append(b, "", 1), 0);
}

void put_padding(struct buf *b, size_t align)
{
    put_zeros(b, -b->len % align);
}
