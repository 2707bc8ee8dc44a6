/* SPDX-License-Identifier: MIT */
#include "kernels/kernels.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void put_value(struct buf *b, const char *key, enum gguf_type type, const void *v, size_t n)
{
    put_str(b, key);
    put_u32(b, type);
    assert_int_equal(buf_append(b, v, n), 0);
}

#define VALUE(b, key, gguf, ctype, v) put_value(b, key, gguf, &(ctype){v}, sizeof(ctype))

static struct gguf *g;

static int setup(void **state)
{
    struct buf b = BUF_INIT;
    put_header(&b, 3, 0, 17);
    VALUE(&b, "u8", GGUF_U8, uint8_t, 200);
    VALUE(&b, "i8", GGUF_I8, int8_t, 100);
    VALUE(&b, "u16", GGUF_U16, uint16_t, 60000);
    VALUE(&b, "i16", GGUF_I16, int16_t, 30000);
    VALUE(&b, "u32", GGUF_U32, uint32_t, 4000000000u);
    VALUE(&b, "i32", GGUF_I32, int32_t, 2000000000);
    VALUE(&b, "u64", GGUF_U64, uint64_t, 4294967295u);
    VALUE(&b, "i64", GGUF_I64, int64_t, 7);
    VALUE(&b, "minus8", GGUF_I8, int8_t, -5);
    VALUE(&b, "minus64", GGUF_I64, int64_t, -6000000000);
    VALUE(&b, "large", GGUF_U64, uint64_t, 4294967296u);
    VALUE(&b, "f32", GGUF_F32, float, 1.5f);
    VALUE(&b, "f64", GGUF_F64, double, 2.25);
    VALUE(&b, "yes", GGUF_BOOL, uint8_t, 1);
    put_key_str(&b, "text", "some text");
    put_str(&b, "ints"), put_u32(&b, GGUF_ARRAY), put_u32(&b, GGUF_I32), put_u64(&b, 2), put_u32(&b, 3),
        put_u32(&b, 0xffffffff);
    put_str(&b, "floats"), put_u32(&b, GGUF_ARRAY), put_u32(&b, GGUF_F32), put_u64(&b, 1), put_u32(&b, 0x40000000);
    return model_file_open(&g, b.data, b.len) || (buf_fini(&b), 0);
}

static int teardown(void **state)
{
    g = gguf_close(g);
    return 0;
}

static void test_integers_of_every_width(void **state)
{
    static const struct {
        const char *key;
        uint32_t value;
    } want[] = {{"u8", 200},          {"i8", 100},         {"u16", 60000},       {"i16", 30000},
                {"u32", 4000000000u}, {"i32", 2000000000}, {"u64", 4294967295u}, {"i64", 7}};
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
        uint32_t v = 0;
        assert_int_equal(gguf_get_u32(g, want[i].key, &v), 0);
        assert_int_equal(v, want[i].value);
    }
}

static void test_integers_that_do_not_fit(void **state)
{
    static const char *const want[][2] = {{"minus8", "key 'minus8' is -5, not"},
                                          {"minus64", "key 'minus64' is -6000000000, not"},
                                          {"large", "key 'large' is 4294967296, not"}};
    for (size_t i = 0; i < 3; i++) {
        uint32_t v = 99;
        assert_int_equal(gguf_get_u32(g, want[i][0], &v), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), want[i][1]));
        assert_int_equal(v, 99);
    }
}

static void test_other_types(void **state)
{
    float f = 0;
    bool yes = false;
    struct gguf_str s = {0};
    assert_int_equal(gguf_get_f32(g, "f32", &f), 0);
    assert_true(f == 1.5f);
    assert_int_equal(gguf_get_f32(g, "f64", &f), 0);
    assert_true(f == 2.25f);
    assert_int_equal(gguf_get_bool(g, "yes", &yes), 0);
    assert_true(yes);
    assert_int_equal(gguf_get_str(g, "text", &s), 0);
    assert_int_equal(s.len, 9);
    assert_memory_equal(s.data, "some text", 9);
    assert_int_equal(gguf_array_i32(gguf_find(g, "ints"), 0), 3);
    assert_int_equal(gguf_array_i32(gguf_find(g, "ints"), 1), -1);
    assert_true(gguf_array_f32(gguf_find(g, "floats"), 0) == 2);
}

static void test_absent(void **state)
{
    uint32_t v = 5;
    float f = 5;
    bool b = true;
    struct gguf_str s = {"x", 1};
    assert_int_equal(gguf_get_u32(g, "nothing", &v), 1);
    assert_int_equal(gguf_get_f32(g, "nothing", &f), 1);
    assert_int_equal(gguf_get_bool(g, "nothing", &b), 1);
    assert_int_equal(gguf_get_str(g, "nothing", &s), 1);
    assert_true(v == 5 && f == 5 && b && s.len == 1);
}

static void test_wrong_types(void **state)
{
    uint32_t v;
    float f;
    bool b;
    struct gguf_str s;
    assert_int_equal(gguf_get_u32(g, "f32", &v), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "key 'f32' is of type f32, not an integer"));
    assert_int_equal(gguf_get_u32(g, "ints", &v), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "key 'ints' is of type array, not an integer"));
    assert_int_equal(gguf_get_f32(g, "u32", &f), -EINVAL);
    assert_int_equal(gguf_get_bool(g, "u8", &b), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "key 'u8' is of type u8, not bool"));
    assert_int_equal(gguf_get_str(g, "u8", &s), -EINVAL);
}

static void test_tensor_types(void **state)
{
    uint32_t block, bytes;
    assert_string_equal(gguf_tensor_type_name(2, &block, &bytes), "Q4_0");
    assert_true(block == 32 && bytes == 18);
    assert_string_equal(gguf_tensor_type_name(14, &block, &bytes), "Q6_K");
    assert_true(block == 256 && bytes == 210);
    assert_null(gguf_tensor_type_name(4, &block, &bytes));
    assert_null(gguf_tensor_type_name(UINT32_MAX, &block, &bytes));
    static const uint32_t ours[KERN_TYPES] = {
        0,  1,  30, 8,  2,  3,  14, 6,  7,  10, 11, 12, 13,
        20, 23, 39, 34, 35, 19, 29, 16, 17, 22, 18, 21}; /* in the order of enum kern_type */
    for (enum kern_type t = 0; t < KERN_TYPES; t++) {
        assert_string_equal(gguf_tensor_type_name(ours[t], &block, &bytes), kern_type_name(t));
        assert_true(block == kern_type_block(t) && bytes == kern_type_bytes(t));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_of_every_width),
        cmocka_unit_test(test_integers_that_do_not_fit),
        cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_tensor_types),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
