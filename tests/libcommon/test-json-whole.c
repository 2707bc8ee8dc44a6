/* SPDX-License-Identifier: MIT */
/* JSON text is complete, or none: with memory that runs out at each allocation. */
#include "libcommon/json-whole.h"
#include "tests/libcommon/check.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LONG "a text that does not fit into the first buffer of the parser, so that it has to grow while it is read"
#define WANT                                                                                                           \
    "{\"name\":\"" LONG "\",\"list\":[1,2.5,\"" LONG "\",null],\"copy\":{\"deep\":{\"" LONG "\":true}},\"none\":null}"

/* NULL: no memory for a part of it. */
static char *make(void)
{
    json_t *o = json_object(), *list = json_array();
    json_whole_set_str(o, "name", LONG, sizeof(LONG) - 1);
    json_whole_append(list, json_integer(1));
    json_whole_append(list, json_real(2.5));
    json_whole_append(list, json_string(LONG));
    json_whole_append(list, json_null());
    json_whole_set(o, "list", list);
    json_auto_t *inner = json_pack("{s:{s:b}}", "deep", LONG, 1);
    json_whole_set(o, "copy", json_deep_copy(inner));
    json_whole_set_str(o, "none", "\xff", 1);
    return json_whole_text(o);
}

static void text(void **state)
{
    unsigned long n = 0;
    for (bool failed = true; failed; n++) {
        memory_fail(n);
        char *s = make();
        failed = memory_end();
        if (failed)
            assert_null(s);
        else
            assert_string_equal(s, WANT);
        free(s);
    }
    assert_true(n > 30);
}

/* The error of one text is not that of the next one. */
static void next_text(void **state)
{
    memory_fail(0);
    assert_null(make());
    assert_true(memory_end());
    char *s = make();
    assert_string_equal(s, WANT);
    free(s);
}

static void load(void **state)
{
    json_error_t why;
    unsigned long n = 0;
    for (bool failed = true; failed; n++) {
        json_t *v = json_null();
        memory_fail(n);
        int r = json_whole_load(&v, WANT, sizeof(WANT) - 1, 0, &why);
        failed = memory_end();
        if (failed) {
            assert_int_equal(r, -ENOMEM);
            assert_null(v);
            continue;
        }
        assert_int_equal(r, 0);
        char *s = json_whole_text(v);
        assert_string_equal(s, WANT);
        free(s);
    }
    assert_true(n > 30);
}

static void not_json(void **state)
{
    json_error_t why;
    json_t *v = json_null();
    assert_int_equal(json_whole_load(&v, "{\"a\":\n}", 8, 0, &why), -EBADMSG);
    assert_null(v);
    assert_int_equal(why.line, 2);
}

/* What was in the buffer before stays. */
static void put(void **state)
{
    struct buf b = BUF_INIT;
    assert_int_equal(buf_puts(&b, "data: "), 0);
    assert_int_equal(json_whole_put(&b, json_string("x")), 0);
    assert_int_equal(b.len, 9);
    assert_memory_equal(b.data, "data: \"x\"", 9);
    assert_int_equal(json_whole_put(&b, NULL), -ENOMEM);
    buf_fini(&b);
}

int main(void)
{
    json_whole_watch();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text),     cmocka_unit_test(next_text), cmocka_unit_test(load),
        cmocka_unit_test(not_json), cmocka_unit_test(put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
