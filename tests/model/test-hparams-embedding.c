/* SPDX-License-Identifier: MIT */
/* The keys of models that give a text a vector or scores. */
#include "daemon/model/hparams.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ALIGN   64 /* a multiple of the alignment of tensors, which bytes of keys must keep */
#define BOOLEAN 7
#define STRING  8
#define ARRAY   9

/* The tiny model of @arch with @n more keys, whose bytes are @key. */
static int read_with(struct hparams *s, const char *arch, struct buf *key, uint64_t n)
{
    struct buf tiny = BUF_INIT, file = BUF_INIT;
    struct gguf *g = NULL;
    struct tiny t;
    uint64_t keys;
    char filler[ALIGN + 1] = "";
    tiny_init(&t);
    t.arch = arch;
    model_file_tiny_bytes(&tiny, &t);
    memset(filler, 'x', -(key->len + 8 + 8 + 8) % ALIGN); /* two lengths; a type and a number */
    put_key_str(key, filler, "1234");
    memcpy(&keys, tiny.data + 16, sizeof(keys)); /* behind magic, version and the number of tensors */
    assert_int_equal(buf_append(&file, tiny.data, 16), 0);
    put_u64(&file, keys + n + 1);
    assert_int_equal(buf_append(&file, key->data, key->len), 0);
    assert_int_equal(buf_append(&file, tiny.data + 24, tiny.len - 24), 0);
    assert_int_equal(model_file_open(&g, file.data, file.len), 0);
    int r = hparams_read(s, g);
    gguf_close(g);
    buf_fini(&file);
    buf_fini(&tiny);
    buf_fini(key);
    return r;
}

static int read_with_kind(struct hparams *s, uint32_t kind)
{
    struct buf key = BUF_INIT;
    put_key_u32(&key, "qwen3.pooling_type", kind);
    return read_with(s, "qwen3", &key, 1);
}

static void test_pooling(void **state)
{
    struct hparams s;
    for (uint32_t i = 0; i < POOLING_KINDS; i++) {
        assert_int_equal(read_with_kind(&s, i), 0);
        assert_int_equal(s.embedding.pooling, i);
        assert_true(!s.embedding.whole && s.embedding.labels == 1);
    }
    struct buf other = BUF_INIT;
    put_key_u32(&other, "llama.pooling_type", 1); /* of another architecture */
    assert_int_equal(read_with(&s, "qwen3", &other, 1), 0);
    assert_int_equal(s.embedding.pooling, POOLING_NONE);
    assert_int_equal(read_with_kind(&s, 17), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "key 'qwen3.pooling_type' is 17; it must be 0 (none)"));
}

static void test_causal(void **state)
{
    struct hparams s;
    for (uint8_t causal = 0; causal < 2; causal++) {
        struct buf key = BUF_INIT;
        put_str(&key, "qwen3.attention.causal");
        put_u32(&key, BOOLEAN);
        assert_int_equal(buf_append(&key, &causal, 1), 0);
        int r = read_with(&s, "qwen3", &key, 1);
        assert_int_equal(r, causal ? 0 : -EOPNOTSUPP);
        if (r) assert_non_null(strstr(error_text(r), "key 'qwen3.attention.causal' is false; only true"));
    }
    struct buf key = BUF_INIT;
    put_key_str(&key, "qwen3.attention.causal", "maybe");
    assert_int_equal(read_with(&s, "qwen3", &key, 1), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "qwen3.attention.causal"));
}

/* A file with rank pooling and @n labels. */
static int read_labels(struct hparams *s, uint64_t n)
{
    struct buf key = BUF_INIT;
    put_str(&key, "qwen3.classifier.output_labels");
    put_u32(&key, ARRAY);
    put_u32(&key, STRING);
    put_u64(&key, n);
    for (uint64_t i = 0; i < n; i++) put_str(&key, "yes");
    struct buf both = BUF_INIT;
    put_key_u32(&both, "qwen3.pooling_type", POOLING_RANK);
    assert_int_equal(buf_append(&both, key.data, key.len), 0);
    buf_fini(&key);
    return read_with(s, "qwen3", &both, 2);
}

static void test_labels(void **state)
{
    struct hparams s;
    assert_int_equal(read_labels(&s, 2), 0);
    assert_true(s.embedding.labels == 2 && s.embedding.of_last && s.embedding.pooling == POOLING_RANK);
    assert_int_equal(read_labels(&s, 0), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "key 'qwen3.classifier.output_labels' is not an array of 1 to"));
    assert_int_equal(read_labels(&s, HPARAMS_LABELS_MAX + 1), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pooling), cmocka_unit_test(test_causal),
                                       cmocka_unit_test(test_labels)};
    return cmocka_run_group_tests_name("hparams-embedding", tests, NULL, NULL);
}
