/* SPDX-License-Identifier: MIT */
#include "client/batch/json-members.h"
#include "libcommon/buf.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static int on_member(void *ctx, const struct json_member *m)
{
    struct buf *out = ctx;
    return buf_printf(out, "%s|%d|%s\n", m->key ? m->key : "-", (int)m->kind, m->text);
}

#define MEMBERS(text, want)                                                                                            \
    do {                                                                                                               \
        struct buf out = BUF_INIT;                                                                                     \
        assert_int_equal(json_members(text, strlen(text), on_member, &out), 0);                                        \
        assert_string_equal(out.data ? out.data : "", want);                                                           \
        buf_fini(&out);                                                                                                \
    } while (0)

#define BROKEN(text)                                                                                                   \
    do {                                                                                                               \
        struct buf out = BUF_INIT;                                                                                     \
        assert_int_equal(json_members(text, strlen(text), on_member, &out), -EBADMSG);                                 \
        buf_fini(&out);                                                                                                \
    } while (0)

static void test_members(void **state)
{
    MEMBERS("{}", "");
    MEMBERS(" [ ] ", "");
    MEMBERS("{\"a\":1,\"b\":\"x\\ny\",\"c\":null}", "a|0|1\nb|1|x\ny\nc|0|null\n");
    MEMBERS("{\"o\":{\"a\":[1,{\"b\":\"\\u00e4\\\"\"}]},\"l\":[],\"\":[true]}",
            "o|2|{\"a\": [1, {\"b\": \"ä\\\"\"}]}\nl|3|[]\n|3|[true]\n");
    MEMBERS("[1,\"s\",[2],{\"k\":3}]", "-|0|1\n-|1|s\n-|3|[2]\n-|2|{\"k\": 3}\n");
}

static void test_broken(void **state)
{
    BROKEN("");
    BROKEN("7");
    BROKEN("\"s\"");
    BROKEN("{");
    BROKEN("{\"a\"}");
    BROKEN("{\"a\":nonsense}");
    BROKEN("{\"a\":[nonsense]}");
    BROKEN("{\"a\":1}}");
    BROKEN("{\"a\":01}");
}

static int stop(void *ctx, const struct json_member *m)
{
    ++*(int *)ctx;
    return -EINTR;
}

static void test_a_failure_ends_it(void **state)
{
    int n = 0;
    assert_int_equal(json_members("[1,2,3]", 7, stop, &n), -EINTR);
    assert_int_equal(n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_members), cmocka_unit_test(test_broken),
                                       cmocka_unit_test(test_a_failure_ends_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
