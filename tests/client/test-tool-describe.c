/* SPDX-License-Identifier: MIT */
#include "client/tool-describe.h"
#include "libcommon/error.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void reads(const char *text, const char *name, const char *json)
{
    struct tool_description d = {0};
    int r = tool_describe_read(&d, text, strlen(text));

    if (r < 0) fail_msg("%s: %s", text, error_text(r));
    assert_string_equal(d.name, name);
    assert_string_equal(d.json.data, json);
    tool_description_fini(&d);
}

static void test_functions(void **state)
{
    reads(
        "{\"name\":\"f\",\"description\":\"does\",\n\"parameters\":{\"type\":\"object\",\"properties\":{\"name\":{}}}}",
        "f",
        "{\"name\": \"f\", \"description\": \"does\", "
        "\"parameters\": {\"type\": \"object\", \"properties\": {\"name\": {}}}}");
    /* An element of OpenAI's list. */
    reads("{\"type\":\"function\",\"function\":{\"name\":\"a-b_c.9\",\"strict\":true,\"parameters\":{}}}", "a-b_c.9",
          "{\"name\": \"a-b_c.9\", \"strict\": true, \"parameters\": {}}");
    /* Without parameters there are none. */
    reads("{\"name\":\"f\"}", "f",
          "{\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {}, \"additionalProperties\": "
          "false}}");
    reads("{\"function\":{\"name\":\"f\"}}", "f",
          "{\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {}, \"additionalProperties\": "
          "false}}");
    /* A member of another member is none of the function's. */
    reads("{\"x\":{\"function\":{\"name\":\"g\"},\"name\":1},\"name\":\"f\",\"parameters\":{\"parameters\":1}}", "f",
          "{\"x\": {\"function\": {\"name\": \"g\"}, \"name\": 1}, \"name\": \"f\", \"parameters\": {\"parameters\": "
          "1}}");
}

static void refuses(const char *text, const char *says)
{
    struct tool_description d = {0};

    assert_int_equal(tool_describe_read(&d, text, strlen(text)), -EBADMSG);
    if (!strstr(error_text(-EBADMSG), says)) fail_msg("%s: %s", text, error_text(-EBADMSG));
    tool_description_fini(&d);
}

static void test_what_is_no_function(void **state)
{
    char name[128];

    refuses("", "not JSON");
    refuses("usage: tool [--help]\n", "not JSON");
    refuses("[]", "not an object");
    refuses("\"name\"", "not an object");
    refuses("{}", "no \"name\"");
    refuses("{\"function\":{}}", "no \"name\"");
    refuses("{\"name\":\"f\",\"name\":\"g\"}", "two names");
    refuses("{\"function\":{\"name\":\"f\"},\"function\":{}}", "two functions");
    refuses("{\"name\":7}", "\"name\" is not a string");
    refuses("{\"name\":\"\"}", "no name");
    refuses("{\"name\":\"a b\"}", "a character other");
    refuses("{\"name\":\"a\\u001b\"}", "a character other");
    refuses("{\"name\":\"f\",\"description\":[]}", "\"description\" is not a string");
    refuses("{\"name\":\"f\",\"parameters\":[]}", "\"parameters\" is not an object");
    refuses("{\"name\":\"f\",\"parameters\":\"{}\"}", "\"parameters\" is not an object");
    refuses("{\"name\":\"f\",\"x\":tru}", "not JSON");
    snprintf(name, sizeof(name), "{\"name\":\"%065d\"}", 0);
    refuses(name, "longer than 64 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_what_is_no_function),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
