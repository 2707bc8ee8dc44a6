/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/wav-length.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <stdlib.h>
#include <string.h>

/* 32,000 bytes a second; a chunk of 3 bytes and its padding before the data. */
static const uint8_t header[] = "RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0"
                                "LIST\3\0\0\0abc\0data....";
enum { SIZE = sizeof(header) - 1, RATE = 28 };

static int length(uint32_t size, size_t cut, uint32_t rate)
{
    size_t n = SIZE + 100 - cut;
    uint8_t *file = calloc(1, n > SIZE ? n : SIZE);
    assert_non_null(file);
    memcpy(file, header, SIZE);
    for (int i = 0; i < 4; i++) {
        file[SIZE - 4 + i] = (uint8_t)(size >> 8 * i);
        file[RATE + i] = (uint8_t)(rate >> 8 * i);
    }
    file = realloc(file, n);
    assert_non_null(file);
    int r = wav_length(file, n);
    free(file);
    return r;
}

static void test_lengths(void **state)
{
    assert_int_equal(length(100, 0, 32000), 0);
    assert_int_equal(length(99, 0, 32000), 0);
    assert_int_equal(length(0, 0, 32000), 0);
    assert_int_equal(length(0xffffffff, 0, 32000), 0);
    assert_int_equal(length(0x7ffff000, 0, 32000), 0);
    assert_int_equal(length(100, 0, 0), 0);
    assert_int_equal(length(101, 0, 32000), -EBADMSG);
    assert_string_equal(error_text(-EBADMSG), "truncated: 100 of 101 bytes of sound");
    assert_int_equal(length(0x7fffefff, 0, 0), -EBADMSG);
    assert_int_equal(length(0x7fffefff, 0, 32000), -EFBIG);
    assert_string_equal(error_text(-EFBIG), "18:38:28 hours are over the limit of 30 min");
    assert_int_equal(length(1801, 0, 1), -EFBIG);
}

static void test_truncated(void **state)
{
    for (size_t cut = 101; cut <= SIZE + 100 - 12; cut++) {
        assert_int_equal(length(100, cut, 32000), -EBADMSG);
        assert_string_equal(error_text(-EBADMSG), "truncated: it has no data chunk");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_truncated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
