/* SPDX-License-Identifier: MIT */
#include "daemon/model/hparams.h"
#include "kernels/kernels.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Read everything that an open file provides. */
static uint64_t walk(const struct gguf *g)
{
    uint64_t sum = gguf_version(g);
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        const void *it = NULL;
        struct gguf_str s;
        uint64_t index = 99;
        for (size_t j = 0; j < kv->key.len; j++) sum += (uint8_t)kv->key.data[j];
        while (gguf_next_str(kv, &it, &s, &index))
            for (size_t j = 0; j < s.len; j++) sum += (uint8_t)s.data[j];
        for (uint64_t j = 0; kv->type == GGUF_ARRAY && kv->elem == GGUF_F32 && j < kv->n; j++)
            sum += gguf_array_f32(kv, j) > 0;
        for (uint64_t j = 0; kv->type == GGUF_ARRAY && kv->elem == GGUF_I32 && j < kv->n; j++)
            sum += (uint64_t)gguf_array_i32(kv, j);
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const uint8_t *p = t->data;
        for (uint64_t j = 0; p && j < t->size; j++) sum += p[j];
    }
    struct hparams s;
    hparams_read(&s, g);
    return sum;
}

/* A file with a key of every type, arrays, and three tensors, one of an unknown type. */
static void sample(struct buf *b)
{
    static const uint64_t dims[] = {32, 2};
    put_header(b, 3, 3, 16);
    for (uint32_t t = 0; t < GGUF_TYPES; t++) {
        static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
        if (!sizes[t]) continue;
        char name[] = {'k', (char)('a' + t), 0};
        put_str(b, name);
        put_u32(b, t);
        buf_append(b, "\1\0\0\0\0\0\0\0", sizes[t]);
    }
    put_key_str(b, "general.architecture", "llama");
    put_key_u32(b, "general.alignment", 64);
    put_str(b, "strings");
    put_u32(b, GGUF_ARRAY), put_u32(b, GGUF_STRING), put_u64(b, 3);
    put_str(b, "one"), put_str(b, ""), put_str(b, "three");
    put_str(b, "floats");
    put_u32(b, GGUF_ARRAY), put_u32(b, GGUF_F32), put_u64(b, 2);
    put_u32(b, 0x3f800000), put_u32(b, 0xbf000000);
    put_str(b, "none");
    put_u32(b, GGUF_ARRAY), put_u32(b, GGUF_U64), put_u64(b, 0);
    put_tensor(b, "first", 0, 0, 2, dims);
    put_tensor(b, "second", 8, 256, 2, dims);
    put_tensor(b, "strange", 77, 384, 2, dims);
    put_padding(b, 64);
    put_zeros(b, 384);
}

static void test_reads_what_is_there(void **state)
{
    struct buf b = BUF_INIT;
    struct gguf *g = NULL;
    sample(&b);
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    assert_int_equal(gguf_version(g), 3);
    assert_int_equal(gguf_file_size(g), b.len);
    assert_int_equal(gguf_n_kv(g), 16);
    assert_int_equal(gguf_n_tensors(g), 3);
    const struct gguf_kv *kv = gguf_find(g, "floats");
    assert_true(kv && kv->n == 2 && gguf_array_f32(kv, 1) == -0.5f);
    assert_null(gguf_find(g, "float"));
    assert_null(gguf_find(g, "floatsy"));
    const struct gguf_tensor *t = gguf_find_tensor(g, "second");
    assert_non_null(t);
    assert_int_equal(t->size, 68);
    assert_int_equal(t->dims[1] * 1000 + t->dims[2], 2001);
    const struct gguf_tensor *first = gguf_find_tensor(g, "first");
    assert_ptr_equal((const char *)first->data + 256, t->data);
    t = gguf_find_tensor(g, "strange");
    assert_true(t && t->type == 77 && !t->size && !t->data);
    gguf_close(g);
    buf_fini(&b);
}

static void test_walks_strings(void **state)
{
    struct buf b = BUF_INIT;
    struct gguf *g = NULL;
    sample(&b);
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    static const char *const want[] = {"one", "", "three"};
    const void *it = NULL;
    struct gguf_str s;
    uint64_t i = 7, n = 0;
    for (; gguf_next_str(gguf_find(g, "strings"), &it, &s, &i); n++) {
        assert_int_equal(i, n);
        assert_int_equal(s.len, strlen(want[i]));
        assert_memory_equal(s.data, want[i], s.len);
    }
    assert_int_equal(n, 3);
    it = NULL;
    assert_false(gguf_next_str(gguf_find(g, "none"), &it, &s, &i));
    assert_false(gguf_next_str(gguf_find(g, "general.architecture"), &it, &s, &i));
    gguf_close(g);
    buf_fini(&b);
}

static void test_version_2(void **state)
{
    struct buf b = BUF_INIT;
    struct gguf *g = NULL;
    sample(&b);
    b.data[4] = 2;
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    assert_int_equal(gguf_version(g), 2);
    gguf_close(g);
    buf_fini(&b);
}

static void test_a_vocabulary_of_150000(void **state)
{
    struct buf b = BUF_INIT;
    struct gguf *g = NULL;
    put_header(&b, 3, 0, 2);
    put_str(&b, "tokens");
    put_u32(&b, GGUF_ARRAY), put_u32(&b, GGUF_STRING), put_u64(&b, 150000);
    for (int i = 0; i < 150000; i++) {
        char s[16];
        snprintf(s, sizeof(s), "t%d", i);
        put_str(&b, s);
    }
    put_key_u32(&b, "after", 5);
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    uint32_t v;
    assert_int_equal(gguf_get_u32(g, "after", &v), 0);
    assert_int_equal(v, 5);
    gguf_close(g);
    b.data[b.len - 1] = 0,
                   b.data[model_file_find(&b, "t149999") - 8] = 127; /* the last string now reaches past the end */
    assert_int_equal(model_file_open(&g, b.data, b.len), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "a string of key 'tokens' needs 127 bytes, the file has only"));
    buf_fini(&b);
}

/* --- refused files --- */

static void refused(const struct buf *b, const char *why)
{
    struct gguf *g = NULL;
    int r = model_file_open(&g, b->data, b->len);
    if (r >= 0) fail_msg("opened a file that should be refused with: %s", why);
    if (!strstr(error_text(r), why)) fail_msg("\"%s\" does not say \"%s\"", error_text(r), why);
    assert_null(strchr(error_text(r), '\n'));
}

static void test_no_gguf(void **state)
{
    struct buf b = BUF_INIT;
    struct gguf *g = NULL;
    buf_puts(&b, "hello, world, how are you all today?");
    refused(&b, "not a GGUF file");
    buf_clear(&b);
    refused(&b, "the file is empty");
    buf_fini(&b);
    assert_int_equal(gguf_open(&g, "/nonexistent/model.gguf"), -ENOENT);
    assert_string_equal(error_text(-ENOENT), "/nonexistent/model.gguf: No such file or directory");
    assert_int_equal(gguf_open(&g, "/"), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "/: not a regular file");
    char *path = model_file_write("", 0);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(gguf_open(&g, path), -EINVAL); /* and does not wait for a writer */
    unlink(path);
    free(path);
}

static void test_wrong_versions(void **state)
{
    struct buf b = BUF_INIT;
    put_header(&b, 1, 0, 0);
    refused(&b, "GGUF version 1 is not supported, only 2 and 3");
    buf_clear(&b), put_header(&b, 4, 0, 0);
    refused(&b, "GGUF version 4 is not supported, only 2 and 3");
    buf_clear(&b), put_header(&b, 0x03000000, 0, 0);
    refused(&b, "big-endian");
    buf_fini(&b);
}

static void test_lying_counts(void **state)
{
    struct buf b = BUF_INIT;
    put_header(&b, 3, UINT64_MAX, 0);
    refused(&b, "18446744073709551615 tensors");
    buf_clear(&b), put_header(&b, 3, 0, UINT64_MAX / 2);
    refused(&b, "9223372036854775807 keys");
    buf_clear(&b), put_header(&b, 3, 0, 1), put_key_u32(&b, "one", 1), b.data[16] = 2;
    refused(&b, "2 keys");
    buf_clear(&b), put_header(&b, 3, 0, 2), put_key_u32(&b, "a name that is long", 1);
    refused(&b, "a key's name needs 8 bytes, the file has only 0 more");
    buf_fini(&b);
}

static void test_lying_strings_and_arrays(void **state)
{
    struct buf b = BUF_INIT;
    put_header(&b, 3, 0, 1), put_u64(&b, UINT64_MAX), put_zeros(&b, 16);
    refused(&b, "at byte 32: a key's name needs 18446744073709551615 bytes, the file has only 16 more");
    buf_clear(&b), put_header(&b, 3, 0, 1), put_u64(&b, 0), put_zeros(&b, 16);
    refused(&b, "a key's name is empty");
    buf_clear(&b), put_header(&b, 3, 0, 1), put_key_str(&b, "text", "abc"), b.data[40] = 4;
    refused(&b, "the value of key 'text' needs 4 bytes, the file has only 3 more");
    buf_clear(&b), put_header(&b, 3, 0, 1), put_str(&b, "list"), put_u32(&b, GGUF_ARRAY), put_u32(&b, GGUF_U64);
    put_u64(&b, 1ull << 61), put_zeros(&b, 64);
    refused(&b, "key 'list' says 2305843009213693952 elements, the file has only 64 more bytes");
    buf_clear(&b), put_header(&b, 3, 0, 1), put_str(&b, "list"), put_u32(&b, GGUF_ARRAY), put_u32(&b, GGUF_ARRAY);
    put_u64(&b, 1), put_zeros(&b, 64);
    refused(&b, "key 'list' is an array of arrays");
    buf_clear(&b), put_header(&b, 3, 0, 1), put_str(&b, "odd"), put_u32(&b, 13), put_zeros(&b, 64);
    refused(&b, "key 'odd' has the unknown value type 13");
    buf_clear(&b), put_header(&b, 3, 0, 1), put_str(&b, "yes"), put_u32(&b, GGUF_BOOL), buf_append(&b, "\2", 1);
    refused(&b, "key 'yes' is a boolean with the value 2");
    buf_fini(&b);
}

static void test_twice(void **state)
{
    static const uint64_t dims[] = {8};
    struct buf b = BUF_INIT;
    put_header(&b, 3, 0, 3), put_key_u32(&b, "a", 1), put_key_u32(&b, "b", 1), put_key_u32(&b, "a", 1);
    refused(&b, "key 'a' appears twice");
    buf_clear(&b), put_header(&b, 3, 2, 0), put_tensor(&b, "t", 0, 0, 1, dims), put_tensor(&b, "t", 0, 32, 1, dims);
    put_padding(&b, 32), put_zeros(&b, 64);
    refused(&b, "tensor 't' appears twice");
    buf_fini(&b);
}

static void test_alignment(void **state)
{
    static const uint32_t wrong[] = {0, 1, 4, 24, 33, 1u << 31};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct buf b = BUF_INIT;
        char why[64];
        put_header(&b, 3, 0, 1), put_key_u32(&b, "general.alignment", wrong[i]);
        snprintf(why, sizeof(why), "general.alignment is %u, not a power of two", wrong[i]);
        refused(&b, why);
        buf_fini(&b);
    }
    struct buf b = BUF_INIT;
    put_header(&b, 3, 0, 1), put_key_str(&b, "general.alignment", "32");
    refused(&b, "key 'general.alignment' is of type string, not an integer");
    buf_fini(&b);
}

struct lie {
    uint32_t type;
    uint64_t offset, n_dims, dims[4];
    const char *why;
};

/* One tensor and 128 bytes of data. */
static void test_invalid_tensors(void **state)
{
    static const struct lie lies[] = {
        {0, 0, 0, {0}, "tensor 'x' has 0 dimensions, not 1 to 4"},
        {0, 0, 5, {1, 1, 1, 1}, "tensor 'x' has 5 dimensions, not 1 to 4"},
        {0, 0, 2, {8, 0}, "tensor 'x' has a dimension of 0"},
        {0, 0, 2, {1ull << 32, 1ull << 32}, "the dimensions of tensor 'x' multiply to more than 2^63"},
        {0, 0, 4, {1ull << 31, 1ull << 31, 1ull << 31, 8}, "the dimensions of tensor 'x' multiply to more than 2^63"},
        {0, 0, 1, {1ull << 62}, "the size of tensor 'x' is more than 2^64 bytes"},
        {8, 0, 1, {33}, "tensor 'x' has rows of 33 values, no multiple of Q8_0's 32"},
        {0, 0, 1, {33}, "tensor 'x' is 132 bytes at offset 0 of the data, which has only 128 bytes"},
        {0, 8, 1, {8}, "tensor 'x' is at offset 8 of the data, no multiple of the alignment 32"},
        {0, 128, 1, {1}, "tensor 'x' is 4 bytes at offset 128"},
        {0, 1ull << 63, 1, {1}, "tensor 'x' is 4 bytes at offset 9223372036854775808"},
        {99, 160, 1, {1}, "tensor 'x' is 0 bytes at offset 160"},
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
        struct buf b = BUF_INIT;
        uint64_t dims[5] = {lies[i].dims[0], lies[i].dims[1], lies[i].dims[2], lies[i].dims[3], 1};
        put_header(&b, 3, 1, 0);
        put_tensor(&b, "x", lies[i].type, lies[i].offset, (uint32_t)lies[i].n_dims, dims);
        put_padding(&b, 32), put_zeros(&b, 128);
        refused(&b, lies[i].why);
        buf_fini(&b);
    }
}

static void test_overlap(void **state)
{
    static const uint64_t dims[] = {16};
    struct buf b = BUF_INIT;
    put_header(&b, 3, 3, 0);
    put_tensor(&b, "c", 0, 96, 1, dims), put_tensor(&b, "a", 0, 0, 1, dims), put_tensor(&b, "b", 0, 32, 1, dims);
    put_padding(&b, 32), put_zeros(&b, 256);
    refused(&b, "tensors 'a' and 'b' overlap");
    buf_fini(&b);
}

static void test_names_are_shown_harmlessly(void **state)
{
    struct buf b = BUF_INIT;
    put_header(&b, 3, 0, 1), put_str(&b, "a\033[31mb\n"), put_u32(&b, 77), put_zeros(&b, 8);
    refused(&b, "key 'a?[31mb?' has the unknown value type 77");
    buf_fini(&b);
}

/* --- every byte --- */

static void truncate_everywhere(const struct buf *b, size_t need, size_t from, size_t step)
{
    char *path = model_file_write(b->data, b->len);
    struct gguf *g = NULL;
    for (size_t n = b->len; n-- > 0;) {
        if (n > from && n % step) continue;
        assert_int_equal(truncate(path, (off_t)n), 0);
        int r = gguf_open(&g, path);
        if (r >= 0) gguf_close(g);
        if ((r >= 0) != (n >= need)) fail_msg("%zu of %zu bytes: %d", n, b->len, r);
    }
    unlink(path);
    free(path);
}

static void test_truncated_everywhere(void **state)
{
    struct buf b = BUF_INIT;
    sample(&b);
    truncate_everywhere(&b, b.len, b.len, 1); /* up to "strange", whose size is unknown: its offset is the end */
    buf_fini(&b);
}

static void test_truncated_model(void **state)
{
    struct tiny t;
    tiny_init(&t);
    t.layers = 1;
    struct buf b = BUF_INIT;
    model_file_tiny_bytes(&b, &t);
    size_t directory = model_file_find(&b, "output_norm.weight") + 64;
    truncate_everywhere(&b, b.len, directory, 97); /* its last tensor ends where the file ends */
    buf_fini(&b);
}

static void mutate(const struct buf *b, size_t end, const uint8_t *flips, size_t n_flips)
{
    char *path = model_file_write(b->data, b->len);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    setvbuf(f, NULL, _IONBF, 0);
    size_t opened = 0;
    for (size_t i = 0; i < end; i++)
        for (size_t k = 0; k <= n_flips; k++) {
            uint8_t byte = (uint8_t)b->data[i];
            if (k < n_flips) byte ^= flips[k];
            fseek(f, (long)i, SEEK_SET);
            fwrite(&byte, 1, 1, f);
            struct gguf *g = NULL;
            int r = k < n_flips ? gguf_open(&g, path) : -1;
            if (r >= 0) {
                opened += walk(g) > 0;
                gguf_close(g);
            }
        }
    assert_true(opened > 0);
    fclose(f);
    unlink(path);
    free(path);
}

static void test_every_byte_mutated(void **state)
{
    static const uint8_t flips[] = {0x01, 0x02, 0x08, 0x10, 0x40, 0x80, 0xff};
    struct buf b = BUF_INIT;
    sample(&b);
    mutate(&b, b.len, flips, sizeof(flips));
    buf_fini(&b);
}

static void test_every_byte_of_a_model_mutated(void **state)
{
    static const uint8_t flips[] = {0x81};
    struct tiny t;
    tiny_init(&t);
    t.layers = 1, t.dim = 32, t.ffn = 32, t.heads = t.kv_heads = 1;
    struct buf b = BUF_INIT;
    model_file_tiny_bytes(&b, &t);
    mutate(&b, model_file_find(&b, "output_norm.weight") + 64, flips, sizeof(flips));
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_is_there),
        cmocka_unit_test(test_walks_strings),
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_a_vocabulary_of_150000),
        cmocka_unit_test(test_no_gguf),
        cmocka_unit_test(test_wrong_versions),
        cmocka_unit_test(test_lying_counts),
        cmocka_unit_test(test_lying_strings_and_arrays),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_invalid_tensors),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_names_are_shown_harmlessly),
        cmocka_unit_test(test_truncated_everywhere),
        cmocka_unit_test(test_truncated_model),
        cmocka_unit_test(test_every_byte_mutated),
        cmocka_unit_test(test_every_byte_of_a_model_mutated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
