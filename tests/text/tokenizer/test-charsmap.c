/* SPDX-License-Identifier: MIT */
/* Character maps: longest matches, and every way in which one can be damaged. */
#include "daemon/text/tokenizer/charsmap.h"
#include "libcommon/error.h"
#include "tests/text/tiny-words.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const pairs[][2] = {{"A", "a"}, {"AB", "xyz"}, {"ABCD", ""}, {"\xc3\xa9", "e"}, {NULL}};

/* charsmap_init on a file with this map; @elem 0: of bytes. */
static int open_map(struct charsmap *m, const char *data, size_t n, bool bytes)
{
    struct tiny_tokenizer keys = {0};
    struct gguf *g;
    char path[64];
    int fd = memfd_create("map", MFD_CLOEXEC);
    if (bytes)
        tiny_u8s(&keys, "tokenizer.ggml.precompiled_charsmap", data, n);
    else
        tiny_str(&keys, "tokenizer.ggml.precompiled_charsmap", "x");
    tiny_write_keys(&keys, fd);
    buf_fini(&keys.body);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    assert_int_equal(gguf_open(&g, path), 0);
    close(fd);
    *m = (struct charsmap){0};
    int r = charsmap_init(m, g);
    gguf_close(g);
    return r;
}

static void expect(const struct charsmap *m, const char *s, size_t len, const char *want)
{
    const char *to = NULL;
    assert_int_equal(charsmap_match(m, s, strlen(s), &to), len);
    if (len) assert_string_equal(to, want);
}

static void longest(void **state)
{
    struct buf b = BUF_INIT;
    struct charsmap m;
    tiny_charsmap(&b, pairs);
    assert_int_equal(open_map(&m, b.data, b.len, true), 0);
    expect(&m, "A", 1, "a");
    expect(&m, "AB", 2, "xyz");
    expect(&m, "ABC", 2, "xyz");
    expect(&m, "ABCDE", 4, "");
    expect(&m, "\xc3\xa9", 2, "e");
    expect(&m, "\xc3\xa8", 0, NULL);
    expect(&m, "BA", 0, NULL);
    expect(&m, "", 0, NULL);
    charsmap_fini(&m);
    assert_int_equal(open_map(&m, b.data, 0, true), 0); /* identity: nothing is replaced */
    expect(&m, "A", 0, NULL);
    charsmap_fini(&m);
    buf_fini(&b);
}

static void refused(const char *data, size_t n, bool bytes, const char *words)
{
    struct charsmap m;
    assert_int_equal(open_map(&m, data, n, bytes), -EINVAL);
    if (!strstr(error_text(-EINVAL), words)) fail_msg("no \"%s\" in: %s", words, error_text(-EINVAL));
    assert_non_null(strstr(error_text(-EINVAL), "tokenizer.ggml.precompiled_charsmap"));
    charsmap_fini(&m);
}

static void set(struct buf *b, size_t unit, uint32_t v)
{
    memcpy(b->data + 4 + 4 * unit, &v, 4);
}

/* A fresh map in @b. */
static void fresh(struct buf *b)
{
    buf_clear(b);
    tiny_charsmap(b, pairs);
}

static void damaged(void **state)
{
    struct buf b = BUF_INIT;
    refused("", 0, false, "not an array of bytes");
    fresh(&b);
    refused(b.data, 3, true, "cut off after 3 bytes");
    refused(b.data, 4, true, "cannot be in 0 bytes");
    refused(b.data, 1000, true, "cannot be in 996 bytes");
    refused(b.data, b.len - 1, true, "has no end");
    memset(b.data, 0xff, 4);
    refused(b.data, b.len, true, "a trie of 4294967295 bytes");
    memset(b.data, 0, 4);
    refused(b.data, b.len, true, "a trie of 0 bytes");
    fresh(&b);
    set(&b, 0, 1u << 30);
    refused(b.data, b.len, true, "unit 0 of the trie points to unit 1048576");
    fresh(&b);
    set(&b, 256 + 'A', 'A' | 1u << 30); /* the offset of a unit that a text reaches */
    refused(b.data, b.len, true, "unit 321 of the trie points to unit 1048897");
    fresh(&b);
    set(&b, 512, 1u << 31 | 1000); /* the replacement of "A" */
    refused(b.data, b.len, true, "unit 512 of the trie points to byte 1000 of 9 bytes");
    fresh(&b);
    set(&b, 0, 'A' << 10 | 1u << 8 | 'A'); /* "A" leads back to unit 0, where it ends */
    set(&b, 'A', 0x7fffffff);
    refused(b.data, b.len, true, "unit 65 of the trie points to byte 2147483647 of 9 bytes");
    buf_fini(&b);
}

/* A damaged map is refused, or it matches within its bounds; the sanitizers watch. A trie with circles has an end. */
static void any_units(void **state)
{
    uint64_t seed = 3;
    struct buf b = BUF_INIT;
    int made = 0;
    for (int round = 0; round < 2000; round++) {
        struct charsmap m;
        fresh(&b);
        for (int k = 0; k < 3; k++) b.data[tiny_random(&seed) % b.len] = (char)tiny_random(&seed);
        if (round % 3 == 0) set(&b, 256 + 'A', 'A' | (256 ^ (256 + 'A')) << 10); /* AAA… stays at the root */
        if (open_map(&m, b.data, b.len, true) == 0) {
            const char *to;
            char text[600];
            memset(text, 'A', sizeof(text));
            assert_true(charsmap_match(&m, text, sizeof(text), &to) <= 256);
            made++;
        }
        charsmap_fini(&m);
    }
    assert_true(made > 100);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(longest), cmocka_unit_test(damaged),
                                       cmocka_unit_test(any_units)};
    return cmocka_run_group_tests_name("charsmap", tests, NULL, NULL);
}
