/* SPDX-License-Identifier: MIT */
#include "daemon/output/harmony.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void control(struct harmony *h, const char *piece)
{
    harmony_control(h, piece, strlen(piece));
}

static bool shows(struct harmony *h, const char *text)
{
    return harmony_text(h, text, strlen(text));
}

static void expect(struct harmony *h, const char *name, const char *channel)
{
    control(h, "<|channel|>");
    for (; *name; name++) assert_false(harmony_text(h, name, 1));
    control(h, "<|message|>");
    assert_true(shows(h, "text"));
    assert_string_equal(harmony_channel(h), channel);
    control(h, "<|end|>");
    assert_false(shows(h, " "));
    control(h, "<|start|>");
    assert_false(shows(h, "assistant"));
}

static void test_channels(void **state)
{
    struct harmony h = {0};
    expect(&h, "analysis", "thinking");
    expect(&h, "commentary to=functions.f ", "thinking");
    expect(&h, "final", "answer");
    expect(&h, "finally and long", "thinking");
    expect(&h, "fin", "thinking");
    expect(&h, "", "thinking");
    expect(&h, "final", "answer");
}

/* A header without a channel, as a tool's message has it, is none of the answer. */
static void test_a_message_without_a_channel(void **state)
{
    struct harmony h = {0};
    expect(&h, "final", "answer");
    control(&h, "<|message|>");
    assert_true(shows(&h, "text"));
    assert_string_equal(harmony_channel(&h), "thinking");
}

/* Other models have marks of the same name that mean something else. */
static void test_without_channels(void **state)
{
    struct harmony h = {0};
    assert_true(shows(&h, "text"));
    control(&h, "<|start|>");
    assert_true(shows(&h, "text"));
    control(&h, "<|message|>");
    assert_true(shows(&h, "text"));
    control(&h, "<|end|>");
    control(&h, "<|channel|");
    assert_true(shows(&h, "text"));
    assert_string_equal(harmony_channel(&h), "answer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_a_message_without_a_channel),
        cmocka_unit_test(test_without_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
