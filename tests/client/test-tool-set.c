/* SPDX-License-Identifier: MIT */
/* tool-set.c and tools-read.c */
#include "client/interrupt.h"
#include "client/tool-set.h"
#include "client/tools-read.h"
#include "libcommon/error.h"
#include "tests/support/folder.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
/* after the above */
#include <cmocka.h>

static char folder[FOLDER_PATH];

/* A script in the folder. */
static const char *tool(const char *name, const char *script)
{
    const char *path = folder_at(folder, name);

    assert_int_equal(folder_put(folder, name, script), 0);
    assert_int_equal(chmod(path, 0755), 0);
    return path;
}

static const char weather[] = "#!/bin/sh\n[ \"$1\" = --describe ] && [ $# = 1 ] && echo '{\"name\": \"weather\"}'\n";
static const char count[] =
    "#!/bin/sh\necho '{\"name\": \"count\", \"description\": \"counts\", \"parameters\": {}}'\n";

static void test_descriptions(void **state)
{
    struct tool_set s = {0};
    struct buf list = BUF_INIT;

    assert_int_equal(tool_set_add(&s, tool("weather", weather)), 0);
    assert_int_equal(tool_set_add(&s, tool("count", count)), 0);
    assert_int_equal(s.n, 2);
    assert_non_null(strstr(tool_set_find(&s, "count")->path, "/count"));
    assert_null(tool_set_find(&s, "none"));
    assert_int_equal(tool_set_json(&s, &list), 0);
    assert_string_equal(
        list.data, "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", "
                   "\"parameters\": {\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}}}, "
                   "{\"type\": \"function\", \"function\": "
                   "{\"name\": \"count\", \"description\": \"counts\", \"parameters\": {}}}]");
    assert_int_equal(tool_set_add(&s, tool("weather2", weather)), -EEXIST);
    assert_non_null(strstr(error_text(-EEXIST), "another tool has the name weather"));
    assert_int_equal(s.n, 2);
    buf_fini(&list);
    tool_set_fini(&s);
}

static void fails(const char *path, int r, const char *says)
{
    struct tool_set s = {0};

    assert_int_equal(tool_set_add(&s, path), r);
    assert_non_null(strstr(error_text(r), path));
    if (!strstr(error_text(r), says)) fail_msg("%s", error_text(r));
    assert_int_equal(s.n, 0);
    tool_set_fini(&s);
}

static void test_tools_that_describe_nothing(void **state)
{
    fails(folder_at(folder, "none"), -ENOENT, "cannot run ");
    fails(tool("failing", "#!/bin/sh\nexit 3\n"), -EBADMSG, "--describe exited with 3");
    fails(tool("killed", "#!/bin/sh\nkill -9 $$\n"), -EBADMSG, "--describe ended with signal 9");
    fails(tool("silent", "#!/bin/sh\n"), -EBADMSG, "the output of --describe: not JSON");
    fails(tool("endless", "#!/bin/sh\nyes\n"), -EMSGSIZE, "longer than 262144 bytes");
}

static int request(struct proto_request *r, const char *list, const char *choice)
{
    struct options o = {.thinking.budget = -1};

    *r = (struct proto_request){.type = PROTO_GENERATE};
    assert_int_equal(folder_put(folder, "list.json", list), 0);
    o.tools.file = folder_at(folder, "list.json");
    o.tools.choice = choice;
    return tools_read(r, &o);
}

static const char two[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"x\":{\"name\":\"no\"}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]\n";

static void test_choices(void **state)
{
    struct proto_request r;

    assert_int_equal(request(&r, two, NULL), 0);
    assert_int_equal(r.tools.choice, PROTO_TOOL_UNSET);
    assert_int_equal(r.tools.list.len, strlen(r.tools.list.data));
    assert_non_null(strstr(r.tools.list.data, "{\"name\": \"g\"}"));
    proto_request_fini(&r);
    assert_int_equal(request(&r, two, "required"), 0);
    assert_int_equal(r.tools.choice, PROTO_TOOL_REQUIRED);
    proto_request_fini(&r);
    assert_int_equal(request(&r, two, "g"), 0);
    assert_int_equal(r.tools.choice, PROTO_TOOL_NAMED);
    assert_string_equal(r.tools.name.data, "g");
    proto_request_fini(&r);
    /* The name of a choice is not the name of a tool, and that of a parameter neither. */
    assert_int_equal(request(&r, two, "named"), -EINVAL);
    proto_request_fini(&r);
    assert_int_equal(request(&r, two, "no"), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "no tool has the name no"));
    proto_request_fini(&r);
}

static void test_lists_that_are_none(void **state)
{
    static const char *const bad[] = {"", "{}", "[]", "1", "[1]", "[{\"a\":]", "[{}] x", "\"[]\""};
    struct proto_request r;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(request(&r, bad[i], NULL), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "--tools: "));
        assert_non_null(strstr(error_text(-EINVAL), "list.json: "));
        assert_null(r.tools.list.data);
        proto_request_fini(&r);
    }
}

static void test_thinking(void **state)
{
    struct options o = {.thinking.budget = 5};
    struct proto_request r = {0};

    assert_int_equal(tools_read(&r, &o), 0);
    assert_int_equal(r.thinking.mode, PROTO_THINKING_UNSET);
    assert_true(r.thinking.limited);
    assert_int_equal(r.thinking.budget, 5);
    o.thinking.how = THINK_ON;
    assert_int_equal(tools_read(&r, &o), 0);
    assert_int_equal(r.thinking.mode, PROTO_THINKING_ON);
    assert_true(r.thinking.limited);
    o.thinking.how = THINK_OFF;
    assert_int_equal(tools_read(&r, &o), 0);
    assert_int_equal(r.thinking.mode, PROTO_THINKING_OFF);
    assert_false(r.thinking.limited);
    r = (struct proto_request){0};
    o.raw = true;
    assert_int_equal(tools_read(&r, &o), 0);
    assert_int_equal(r.thinking.mode, PROTO_THINKING_UNSET);
}

static int setup(void **state)
{
    interrupt_init();
    return folder_make(folder, "tools");
}

static int teardown(void **state)
{
    return folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptions), cmocka_unit_test(test_tools_that_describe_nothing),
        cmocka_unit_test(test_choices),      cmocka_unit_test(test_lists_that_are_none),
        cmocka_unit_test(test_thinking),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
