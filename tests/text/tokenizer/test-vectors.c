/* SPDX-License-Identifier: MIT */
/* Real vocabularies: llama.cpp's ids of the same texts (shared/data/README.md), offsets, detokenizing. */
#include "libcommon/error.h"
#include "tests/text/tiny-tokenizer.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct real {
    struct tokenizer *t;
    json_t *vectors;
};

static void data_path(char *out, size_t n, const char *name, const char *ext)
{
    const char *dir = getenv("HOB_TEST_DATA");
    if (dir)
        snprintf(out, n, "%s/vocab/%s.%s", dir, name, ext);
    else
        snprintf(out, n, "%s/../shared/data/vocab/%s.%s", SOURCE_ROOT, name, ext);
}

static void load(struct real *v, const char *name)
{
    char path[4096];
    struct gguf *g;
    data_path(path, sizeof(path), name, "json");
    v->vectors = json_load_file(path, 0, NULL);
    if (!v->vectors) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    data_path(path, sizeof(path), name, "gguf");
    assert_int_equal(gguf_open(&g, path), 0);
    int r = tokenizer_new(&v->t, g);
    if (r < 0) print_error("%s\n", error_text(r));
    assert_int_equal(r, 0);
    gguf_close(g);
}

static void unload(struct real *v)
{
    tokenizer_free(v->t);
    json_decref(v->vectors);
}

/* llama-tokenize, which made the vectors, reads "\n" in its input as a line end. */
static void unescaped(struct text *out, const char *s)
{
    for (; *s; s++) {
        bool nl = s[0] == '\\' && s[1] == 'n';
        assert_int_equal(text_append(out, nl ? "\n" : s, 1, false), 0);
        s += nl;
    }
}

static bool same(const struct tokens *ids, const json_t *want)
{
    bool ok = ids->n == json_array_size(want);
    for (size_t i = 0; ok && i < ids->n; i++) ok = ids->ids[i] == json_integer_value(json_array_get(want, i));
    return ok;
}

/* In a vocabulary without a prefix, every token is the bytes of its part of the text. */
static void check_ends(const struct tokenizer *t, const struct text *text, const struct tokens *ids, bool bpe)
{
    uint32_t begin = 0;
    for (size_t i = 0; i < ids->n; i++) {
        size_t len;
        const char *piece = tokenizer_piece(t, ids->ids[i], &len);
        assert_true(ids->ends[i] >= begin && ids->ends[i] <= text->s.len);
        if (bpe && len == ids->ends[i] - begin) assert_memory_equal(piece, text->s.data + begin, len);
        if (bpe) assert_true(len <= ids->ends[i] - begin); /* more: bytes without a token */
        begin = ids->ends[i];
    }
}

static void vectors(const char *name, bool bpe)
{
    struct real v;
    size_t i, bad = 0;
    json_t *e;
    load(&v, name);
    json_array_foreach(v.vectors, i, e)
    {
        struct text text = {0};
        struct tokens ids = {0};
        unescaped(&text, json_string_value(json_object_get(e, "text")));
        assert_int_equal(tokenizer_encode(v.t, &text, 0, true, &ids), 0);
        check_ends(v.t, &text, &ids, bpe);
        if (!same(&ids, json_object_get(e, "ids"))) {
            print_error("%s: vector %zu differs: %s\n", name, i, json_string_value(json_object_get(e, "text")));
            bad++;
        }
        text_fini(&text);
        tokens_fini(&ids);
    }
    assert_true(i > 0);
    assert_int_equal(bad, 0);
    unload(&v);
}

#define VECTORS(NAME, FILE, BPE)                                                                                       \
    static void NAME(void **state)                                                                                     \
    {                                                                                                                  \
        vectors(FILE, BPE);                                                                                            \
    }
VECTORS(llama_spm, "llama-spm", false)
VECTORS(phi_3, "phi-3", false)
VECTORS(gpt_2, "gpt-2", true)
VECTORS(starcoder, "starcoder", true)
VECTORS(llama3, "llama3", true)
VECTORS(deepseek_v3, "deepseek_v3", true)

static void round_trips(void **state)
{
    static const char *const names[] = {"llama-spm", "phi-3", "gpt-2", "llama3", "deepseek_v3"};
    uint64_t seed = 7;
    for (size_t i = 0; i < 5; i++) {
        struct real v;
        load(&v, names[i]);
        for (int k = 0; k < 300; k++) {
            struct buf b = BUF_INIT;
            tiny_random_text(&seed, tiny_random(&seed) % 400, &b);
            tiny_round_trip(v.t, b.data, b.len);
            buf_fini(&b);
        }
        unload(&v);
    }
}

static void llama3_ends(void **state)
{
    struct real v;
    load(&v, "llama3");
    TINY_EXPECT(v.t, "<|eot_id|>", "##########", 128009);
    assert_true(tokenizer_is_eog(v.t, 128009) && tokenizer_is_control(v.t, 128009));
    assert_true(tokenizer_is_eog(v.t, 128001)); /* <|end_of_text|>, the eos of the file */
    assert_false(tokenizer_is_eog(v.t, 128006));
    assert_int_equal(tokenizer_bos(v.t), 128000);
    assert_int_equal(tokenizer_eos(v.t), 128001);
    assert_false(tokenizer_add_bos(v.t)); /* the file overrides the default of the pre-tokenizer */
    unload(&v);
}

/* The file calls </s> user-defined. As such, a user's text could end the answer. */
static void phi_3_markup(void **state)
{
    struct real v;
    load(&v, "phi-3");
    TINY_EXPECT(v.t, "<|user|>\n  Hi<|end|>\n", "#########", 32010, 6324, 29966, 29989, 355, 29989, 29958, 13);
    TINY_EXPECT(v.t, "<|user|>\n  Hi<|end|>\n", "######################", 32010, 6324, 32007);
    TINY_EXPECT(v.t, "</s>", "####", 2);
    TINY_EXPECT(v.t, "</s>", NULL, 1533, 29879, 29958);
    assert_true(tokenizer_add_bos(v.t));
    unload(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_spm),   cmocka_unit_test(phi_3),       cmocka_unit_test(gpt_2),
        cmocka_unit_test(starcoder),   cmocka_unit_test(llama3),      cmocka_unit_test(deepseek_v3),
        cmocka_unit_test(round_trips), cmocka_unit_test(llama3_ends), cmocka_unit_test(phi_3_markup),
    };
    return cmocka_run_group_tests_name("vectors", tests, NULL, NULL);
}
