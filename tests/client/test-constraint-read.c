/* SPDX-License-Identifier: MIT */
#include "client/constraint-read.h"
#include "libcommon/error.h"
#include "tests/support/folder.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

/* Read the constraint of the options @args into @r. */
static int read_with(struct proto_request *r, const char *const *args)
{
    const char *argv[16] = {"hob"};
    struct options o;
    int argc = 1, e;

    for (; args[argc - 1]; argc++) argv[argc] = args[argc - 1];
    *r = (struct proto_request){.type = PROTO_GENERATE};
    assert_int_equal(options_parse(&o, argc, (char **)argv), 0);
    assert_int_equal(options_complete(&o, NULL), 0);
    e = constraint_read(r, &o);
    options_fini(&o);
    return e;
}

#define READ(r, ...) read_with((r), (const char *const[]){__VA_ARGS__, NULL})

static void test_texts(void **state)
{
    struct proto_request r;

    assert_int_equal(READ(&r, "x"), 0);
    assert_int_equal(r.constraint.type, PROTO_CONSTRAINT_NONE);
    assert_int_equal(READ(&r, "--regex", "a+", "--on-limit", "close", "x"), 0);
    assert_int_equal(r.constraint.type, PROTO_CONSTRAINT_REGEX);
    assert_string_equal(r.constraint.text.data, "a+");
    assert_int_equal(r.constraint.on_limit, PROTO_LIMIT_CLOSE);
    proto_request_fini(&r);
    assert_int_equal(READ(&r, "--choice", "one", "--choice", "two words", "x"), 0);
    assert_int_equal(r.constraint.type, PROTO_CONSTRAINT_CHOICE);
    assert_int_equal(r.constraint.n_choices, 2);
    assert_string_equal(r.constraint.choices[1].data, "two words");
    proto_request_fini(&r);
}

static void test_schemas(void **state)
{
    static const char *const texts[] = {"{}", " \n{\"type\": 1}", "true", "false"};
    struct proto_request r;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(READ(&r, "--schema", texts[i], "x"), 0);
        assert_int_equal(r.constraint.type, PROTO_CONSTRAINT_SCHEMA);
        assert_string_equal(r.constraint.text.data, texts[i]);
        assert_false(r.constraint.schema_lenient || r.constraint.any_order || r.constraint.compact);
        proto_request_fini(&r);
    }
    assert_int_equal(READ(&r, "--schema", "{}", "--schema-lenient", "--any-order", "--compact", "x"), 0);
    assert_true(r.constraint.schema_lenient && r.constraint.any_order && r.constraint.compact);
    proto_request_fini(&r);
}

static void test_files(void **state)
{
    char folder[FOLDER_PATH];
    struct proto_request r;

    assert_int_equal(folder_make(folder, "constraint"), 0);
    assert_int_equal(folder_put(folder, "true", "{\"const\": 1}\n"), 0);
    assert_int_equal(folder_put(folder, "empty", ""), 0);
    assert_int_equal(READ(&r, "--schema", folder_at(folder, "true"), "x"), 0);
    assert_string_equal(r.constraint.text.data, "{\"const\": 1}\n");
    proto_request_fini(&r);
    assert_int_equal(READ(&r, "--grammar", folder_at(folder, "true"), "x"), 0);
    assert_int_equal(r.constraint.type, PROTO_CONSTRAINT_GRAMMAR);
    proto_request_fini(&r);
    assert_int_equal(READ(&r, "--grammar", folder_at(folder, "empty"), "x"), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "--grammar: "));
    assert_non_null(strstr(error_text(-EINVAL), "/empty is empty"));
    proto_request_fini(&r);
    assert_int_equal(READ(&r, "--schema", folder_at(folder, "none"), "x"), -ENOENT);
    assert_non_null(strstr(error_text(-ENOENT), "--schema: "));
    proto_request_fini(&r);
    assert_int_equal(folder_remove(folder), 0);
}

static void test_a_file_beyond_the_limit(void **state)
{
    char folder[FOLDER_PATH], *large = malloc(PROTO_CONSTRAINT_MAX + 2);
    struct proto_request r;

    assert_non_null(large);
    memset(large, ' ', PROTO_CONSTRAINT_MAX + 1);
    large[PROTO_CONSTRAINT_MAX + 1] = 0;
    assert_int_equal(folder_make(folder, "constraint"), 0);
    assert_int_equal(folder_put(folder, "large", large), 0);
    assert_int_equal(READ(&r, "--grammar", folder_at(folder, "large"), "x"), -EMSGSIZE);
    assert_non_null(strstr(error_text(-EMSGSIZE), "has 8388609 bytes, the limit is 8388608"));
    proto_request_fini(&r);
    assert_int_equal(folder_remove(folder), 0);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_a_file_beyond_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
