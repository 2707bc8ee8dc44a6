/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include "tests/libcommon/check.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void a_sentence_belongs_to_its_number(void **state)
{
    assert_int_equal(error_say(-EINVAL, "width is %d", 7), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "width is 7");
    assert_string_equal(error_text(-ENOENT), strerror(ENOENT));
    assert_string_equal(error_text(-EINVAL), "width is 7");
}

static void context_goes_in_front(void **state)
{
    error_say(-EINVAL, "width is 7");
    assert_int_equal(error_in(-EINVAL, "tensor %s", "w1"), -EINVAL);
    assert_int_equal(error_in(-EINVAL, "model.gguf"), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "model.gguf: tensor w1: width is 7");
}

static void context_of_a_number_without_sentence(void **state)
{
    char expected[128];

    error_say(-EINVAL, "stale");
    error_in(-EACCES, "open /x");
    snprintf(expected, sizeof expected, "open /x: %s", strerror(EACCES));
    assert_string_equal(error_text(-EACCES), expected);
}

static void origin_forgets_a_stale_sentence(void **state)
{
    error_say(-ENOENT, "stale");
    assert_int_equal(error_origin(-ENOENT), -ENOENT);
    assert_string_equal(error_text(-ENOENT), strerror(ENOENT));
}

static void a_thread_forgets_its_sentence(void **state)
{
    error_say(-ENOMEM, "stale");
    error_forget();
    assert_string_equal(error_text(-ENOMEM), strerror(ENOMEM));
    assert_int_equal(error_in(-ENOMEM, "a turn"), -ENOMEM);
    assert_non_null(strstr(error_text(-ENOMEM), "a turn: "));
    assert_null(strstr(error_text(-ENOMEM), "stale"));
}

static void its_own_text_may_be_an_argument(void **state)
{
    error_say(-EINVAL, "inner");
    error_say(-EBADMSG, "outer (%s)", error_text(-EINVAL));
    assert_string_equal(error_text(-EBADMSG), "outer (inner)");
}

static void long_sentences_are_cut_between_characters(void **state)
{
    char text[4096];

    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xe2\x82\xac", 4);
        error_say(-EINVAL, "%s", text);
        assert_true(strlen(error_text(-EINVAL)) > 1000);
        assert_int_equal(utf8_check(error_text(-EINVAL), strlen(error_text(-EINVAL))), strlen(error_text(-EINVAL)));
        error_in(-EINVAL, "%s", text);
        assert_true(strlen(error_text(-EINVAL)) < 1024);
    }
}

static void *other_thread(void *arg)
{
    strcpy(arg, error_text(-EINVAL));
    error_say(-EINVAL, "of the other thread");
    return NULL;
}

static void sentences_are_per_thread(void **state)
{
    char seen[256] = "";
    pthread_t t;

    error_say(-EINVAL, "of the first thread");
    assert_int_equal(pthread_create(&t, NULL, other_thread, seen), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_string_equal(seen, strerror(EINVAL));
    assert_string_equal(error_text(-EINVAL), "of the first thread");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentence_belongs_to_its_number),
        cmocka_unit_test(context_goes_in_front),
        cmocka_unit_test(context_of_a_number_without_sentence),
        cmocka_unit_test(origin_forgets_a_stale_sentence),
        cmocka_unit_test(a_thread_forgets_its_sentence),
        cmocka_unit_test(its_own_text_may_be_an_argument),
        cmocka_unit_test(long_sentences_are_cut_between_characters),
        cmocka_unit_test(sentences_are_per_thread),
    };

    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
