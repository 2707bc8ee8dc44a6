/* SPDX-License-Identifier: MIT */
/*
 * Every allocation fails once. Each failure is an -ENOMEM without a leak (ASan and valgrind check it). The linker
 * replaces the calls of hob (--wrap); PCRE2's own calls are not replaced.
 */
#include "libcommon/error.h"
#include "tests/support/memory.h"
#include "tests/text/tiny-words.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const struct tiny_token extra[] = {
    {"<|im_end|>", TINY_CONTROL, 0}, {"_a", TINY_NORMAL, -1}, {"_", TINY_NORMAL, -2}};

/* The file, open. */
static struct gguf *file(bool spm)
{
    const char *const merges[] = {"a b", "_ ab", NULL};
    struct tiny_tokenizer m = {0};
    char path[64];
    struct gguf *g;
    int fd = memfd_create("vocabulary", MFD_CLOEXEC);
    if (spm)
        tiny_spm(&m, extra, 3);
    else
        tiny_bpe(&m, "smollm", merges, extra, 1);
    tiny_write_keys(&m, fd);
    buf_fini(&m.body);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    assert_int_equal(gguf_open(&g, path), 0);
    close(fd);
    return g;
}

static struct gguf *sample(const char *model)
{
    struct tiny_tokenizer m = {0};
    struct gguf *g;
    char path[64];
    int fd = memfd_create("vocabulary", MFD_CLOEXEC);
    tiny_sample(&m, model);
    tiny_write_keys(&m, fd);
    buf_fini(&m.body);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    assert_int_equal(gguf_open(&g, path), 0);
    close(fd);
    return g;
}

/* Repeats until no allocation fails. Returns the number of allocations. */
static unsigned long make(const struct gguf *g, struct tokenizer **t)
{
    for (unsigned long n = 0;; n++) {
        *t = NULL;
        memory_fail(n);
        int r = tokenizer_new(t, g);
        memory_end();
        if (r == 0) return n;
        assert_int_equal(r, -ENOMEM);
        assert_null(*t);
    }
}

static unsigned long encode(const struct tokenizer *t, const struct text *text)
{
    for (unsigned long n = 0;; n++) {
        struct tokens out = {0};
        memory_fail(n);
        int r = tokenizer_encode(t, text, 0, true, &out);
        memory_end();
        if (r < 0) {
            assert_int_equal(r, -ENOMEM);
            assert_int_equal(out.n, 0);
        }
        tokens_fini(&out);
        if (r == 0) return n;
    }
}

static void both(void **state)
{
    for (int spm = 0; spm < 2; spm++) {
        struct gguf *g = file(spm);
        struct tokenizer *t;
        struct text text = {0};
        assert_true(make(g, &t) >= 10);
        for (int i = 0; i < 40; i++) {
            text_append(&text, " ab abab 12 \xf0\x9f\x99\x82", 16, false);
            text_append(&text, "<|im_end|>", 10, true);
        }
        assert_true(encode(t, &text) >= 8);
        text_fini(&text);
        tokenizer_free(t);
        gguf_close(g);
    }
}

static void without_merges(void **state)
{
    for (const char *const *kind = tiny_word_kinds; *kind; kind++) {
        struct gguf *g = sample(*kind);
        struct tokenizer *t;
        struct text text = {0};
        assert_true(make(g, &t) >= 12);
        for (int i = 0; i < 100; i++) text_append(&text, " ab A\xc3\xa9 \xf0\x9f\x99\x82", 13, false);
        assert_true(encode(t, &text) >= 4);
        text_fini(&text);
        tokenizer_free(t);
        gguf_close(g);
    }
}

static void copying(void **state)
{
    struct tokens from = {0}, to;
    assert_int_equal(tokens_copy(&to, &from), 0);
    assert_int_equal(to.n, 0);
    for (int32_t i = 0; i < 100; i++) assert_int_equal(tokens_push(&from, i, (uint32_t)i * 2), 0);
    for (unsigned long n = 0;; n++) {
        memory_fail(n);
        int r = tokens_copy(&to, &from);
        memory_end();
        if (r == 0) break;
        assert_int_equal(r, -ENOMEM);
        assert_true(to.n == 0 && !to.ids && !to.ends);
    }
    assert_int_equal(tokens_push(&to, 7, 8), 0);
    assert_int_equal(to.n, 101);
    assert_memory_equal(to.ids, from.ids, 100 * sizeof(*to.ids));
    assert_memory_equal(to.ends, from.ends, 100 * sizeof(*to.ends));
    assert_true(to.ids[100] == 7 && to.ends[100] == 8);
    tokens_fini(&to);
    tokens_fini(&from);
}

static void appending(void **state)
{
    struct text text = {0};
    for (int i = 0; i < 100; i++) {
        bool markup = i % 3 == 0;
        for (unsigned long n = 0;; n++) {
            size_t len = text.s.len, spans = text.n_spans;
            memory_fail(n);
            int r = text_append(&text, "0123456789abcdef", 16, markup);
            memory_end();
            if (r == 0) break;
            assert_int_equal(r, -ENOMEM);
            assert_int_equal(text.s.len, len);
            assert_int_equal(text.n_spans, spans);
        }
    }
    assert_int_equal(text.s.len, 1600);
    assert_int_equal(text.spans[text.n_spans - 1].end, 1600);
    text_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both), cmocka_unit_test(without_merges),
                                       cmocka_unit_test(copying), cmocka_unit_test(appending)};
    return cmocka_run_group_tests_name("tokenizer-memory", tests, NULL, NULL);
}
