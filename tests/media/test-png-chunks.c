/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/png-chunks.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <string.h>
#include <zlib.h>

struct file {
    uint8_t data[512];
    size_t n;
};

static void put32(uint8_t *to, size_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void chunk(struct file *f, const char *name, const char *data, size_t n)
{
    uint8_t *to = f->data + f->n;
    put32(to, n);
    memcpy(to + 4, name, 4);
    memcpy(to + 8, data, n);
    put32(to + 8 + n, crc32(0, to + 4, (uInt)n + 4));
    f->n += n + 12;
}

static void begin(struct file *f)
{
    memcpy(f->data, "\x89PNG\r\n\x1a\n", 8);
    f->n = 8;
    chunk(f, "IHDR", "\0\0\0\5\0\0\1\0\x08\2\0\0\1", 13);
}

/* What libspng gets, read in pieces of each length. */
static void test_filter(void **state)
{
    struct file all = {0}, needed = {0};
    struct png_chunks c;
    uint8_t got[512];
    begin(&all);
    begin(&needed);
    chunk(&all, "zTXt", "a text", 6);
    chunk(&all, "eXIf", "one", 3);
    chunk(&all, "eXIf", "two", 3);
    chunk(&all, "PLTE", "\1\2\3", 3);
    chunk(&needed, "PLTE", "\1\2\3", 3);
    chunk(&all, "iCCP", "", 0);
    for (int i = 0; i < 3; i++) {
        chunk(&all, "IDAT", "abcdef", (size_t)i * 2);
        chunk(&needed, "IDAT", "abcdef", (size_t)i * 2);
    }
    chunk(&all, "IEND", "", 0);
    chunk(&needed, "IEND", "", 0);
    size_t end = all.n;
    memcpy(all.data + all.n, "rubbish", 7);
    all.n += 7;
    for (size_t piece = 1; piece <= needed.n; piece++) {
        assert_int_equal(png_chunks_init(&c, all.data, all.n), 0);
        assert_true(c.n == end && c.width == 5 && c.height == 256 && c.interlaced);
        assert_true(c.n_exif == 3 && memcmp(c.exif, "one", 3) == 0);
        size_t n = 0;
        for (; n + piece <= needed.n; n += piece) assert_true(png_chunks_read(&c, got + n, piece));
        assert_memory_equal(got, needed.data, n);
        assert_false(png_chunks_read(&c, got, needed.n - n + 1));
    }
    /* A file that ends anywhere before the end of IEND. */
    for (size_t n = 8; n < end; n++) {
        assert_int_equal(png_chunks_init(&c, all.data, n), -EBADMSG);
        assert_memory_equal(error_text(-EBADMSG), "truncated", 9);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *name, *says;
    } cases[] = {
        {"IHDR", "the header, IHDR, is damaged"},
        {"NEED", "unknown chunk NEED"},
        {"a b\x1b", "a chunk without a name, at byte 33"},
        {"@aaa", "a chunk without a name, at byte 33"},
    };
    struct png_chunks c;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct file f = {0};
        begin(&f);
        chunk(&f, cases[i].name, "\0\0\0\5\0\0\1\0\x08\2\0\0\1", 13);
        chunk(&f, "IEND", "", 0);
        assert_int_equal(png_chunks_init(&c, f.data, f.n), -EBADMSG);
        assert_string_equal(error_text(-EBADMSG), cases[i].says);
    }
    struct file f = {0};
    begin(&f);
    chunk(&f, "IDAT", "", 0);
    f.data[33] = 0xff;
    assert_int_equal(png_chunks_init(&c, f.data, f.n), -EBADMSG);
    assert_string_equal(error_text(-EBADMSG), "a bad length of IDAT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
