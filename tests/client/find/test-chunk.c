/* SPDX-License-Identifier: MIT */
#include "client/find/chunk.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What every cut must hold: whole lines in order, none missing, numbers that fit the place, sizes within limits. */
static size_t check(const char *text, size_t len)
{
    struct chunker c;
    struct chunk k;
    const char *covered = text;
    size_t n = 0;
    chunker_init(&c, text, len);
    while (chunk_next(&c, &k)) {
        uint32_t line = 1;
        n++;
        assert_true(k.len > 0 && k.len <= CHUNK_BYTES);
        assert_true(k.text >= text && k.text + k.len <= text + len);
        for (const char *p = text; p < k.text; p++) line += *p == '\n';
        assert_int_equal(k.first, line);
        for (const char *p = k.text; p < k.text + k.len - 1; p++) line += *p == '\n';
        assert_int_equal(k.last, line);
        assert_true(k.last - k.first < CHUNK_LINES);
        for (const char *p = covered; p < k.text; p++) assert_non_null(strchr(" \t\r\n", *p));
        assert_true(k.text + k.len > covered);
        covered = k.text + k.len;
    }
    for (const char *p = covered; p < text + len; p++) assert_non_null(strchr(" \t\r\n", *p));
    return n;
}

static void short_texts_are_one_chunk_or_none(void **state)
{
    assert_int_equal(check("", 0), 0);
    assert_int_equal(check("\n \n\t\r\n", 6), 0);
    assert_int_equal(check("a", 1), 1);
    assert_int_equal(check("\n\n a\nb\n\n\n", 9), 1);
    struct chunker c;
    struct chunk k;
    chunker_init(&c, "\n\n a\nb\n\n\n", 9);
    assert_true(chunk_next(&c, &k));
    assert_int_equal(k.first, 3);
    assert_int_equal(k.last, 4);
    assert_memory_equal(k.text, " a\nb\n", k.len);
}

static void chunks_overlap_unless_a_blank_line_ends_them(void **state)
{
    char text[400];
    struct chunker c;
    struct chunk k;
    size_t len = 0;
    for (int i = 0; i < 60; i++) len += (size_t)sprintf(text + len, "l%02d\n", i);
    check(text, len);
    chunker_init(&c, text, len);
    assert_true(chunk_next(&c, &k));
    assert_int_equal(k.last, CHUNK_LINES);
    assert_true(chunk_next(&c, &k));
    assert_int_equal(k.first, CHUNK_LINES - CHUNK_OVERLAP + 1);
    memcpy(text + 4 * 15, "   \n", 4); /* line 16 */
    chunker_init(&c, text, len);
    assert_true(chunk_next(&c, &k));
    assert_int_equal(k.last, 15);
    assert_true(chunk_next(&c, &k));
    assert_int_equal(k.first, 17);
}

static void a_long_line_is_cut_between_characters(void **state)
{
    enum { LEN = 5 * CHUNK_BYTES };
    char *text = malloc(LEN + 2);
    for (int i = 0; i < LEN; i++) text[i] = "\xe2\x82\xac"[i % 3];
    struct chunker c;
    struct chunk k;
    text[1] = 'x', text[0] = 'x', text[2] = 'x', text[3] = 'x';
    memmove(text + 3, text + 4, LEN - 4);
    size_t n = 0, len = 3 + (LEN - 6) / 3 * 3;
    memcpy(text + 3, "\xe2\x82\xac", 3);
    for (size_t i = 3; i < len; i++) text[i] = "\xe2\x82\xac"[i % 3];
    text[len++] = '\n';
    chunker_init(&c, text, len);
    while (chunk_next(&c, &k)) {
        n++;
        assert_int_equal(k.first, 1);
        assert_int_equal(k.last, 1);
        assert_int_not_equal((unsigned char)k.text[0], 0x82);
        assert_int_not_equal((unsigned char)k.text[0], 0xac);
    }
    assert_in_range(n, 5, 6);
    check(text, len);
    free(text);
}

static void any_text_is_covered(void **state)
{
    static const char alphabet[] = "ab \n\n\nxyz\t\xc3\xa9";
    char *text = malloc(20000);
    srand(7);
    for (int round = 0; round < 200; round++) {
        size_t len = (size_t)(rand() % 20000), lines = (size_t)(rand() % 1500) + 1;
        for (size_t i = 0; i < len; i++)
            text[i] = (size_t)rand() % lines == 0 ? '\n' : alphabet[(size_t)rand() % (sizeof(alphabet) - 1)];
        if (round % 2)
            for (size_t i = 0; i < len; i++)
                if (text[i] == '\n' && (size_t)rand() % lines) text[i] = 'n';
        check(text, len);
    }
    free(text);
}

static void binary_files_are_told_from_texts(void **state)
{
    assert_true(chunk_is_text("", 0));
    assert_true(chunk_is_text("plain\n", 6));
    assert_true(chunk_is_text("na\xefve caf\xe9 latin one, mostly ASCII", 33));
    assert_false(chunk_is_text("a\0b", 3));
    assert_false(chunk_is_text("\xff\xfe\x80\x81\x90\x91", 6));
}

static void invalid_bytes_are_replaced(void **state)
{
    struct buf out = BUF_INIT;
    assert_int_equal(chunk_put_utf8(&out, "a\xff\xc3\xa9\xc3", 5), 0);
    assert_string_equal(out.data, "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd");
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_texts_are_one_chunk_or_none),
        cmocka_unit_test(chunks_overlap_unless_a_blank_line_ends_them),
        cmocka_unit_test(a_long_line_is_cut_between_characters),
        cmocka_unit_test(any_text_is_covered),
        cmocka_unit_test(binary_files_are_told_from_texts),
        cmocka_unit_test(invalid_bytes_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
