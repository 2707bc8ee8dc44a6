/* SPDX-License-Identifier: MIT */
#include "daemon/output/harmony.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
    return channel_harmony.new_parser(&channel_harmony, (struct channel_parser **)state);
}

static int teardown(void **state)
{
    struct channel_parser *p = *state;
    p->ops->free(p);
    return 0;
}

static void control(struct channel_parser *p, const char *piece)
{
    assert_int_equal(p->ops->control(p, piece, strlen(piece), NULL), 0);
}

/* Records the channel of the only text it is given. */
struct sink {
    struct channel_sink base;
    const char *channel, *text;
};

static int sink_text(struct channel_sink *base, const char *channel, const char *text, size_t len)
{
    struct sink *s = (struct sink *)base;
    assert_null(s->channel);
    assert_int_equal(len, strlen(s->text));
    assert_memory_equal(text, s->text, len);
    s->channel = channel;
    return 1;
}

/* The channel of @text; NULL: it is not shown. */
static const char *channel_of(struct channel_parser *p, const char *text)
{
    struct sink s = {{.text = sink_text}, NULL, text};
    int r = p->ops->text(p, text, strlen(text), &s.base);
    assert_int_equal(r, s.channel != NULL); /* the result is the sink's */
    if (s.channel) assert_string_equal(s.channel, p->ops->channel(p));
    return s.channel;
}

static void expect(struct channel_parser *p, const char *name, const char *channel)
{
    control(p, "<|channel|>");
    assert_true(p->ops->ends_part(p));
    for (; *name; name++) assert_null(channel_of(p, (const char[]){*name, '\0'}));
    assert_false(p->ops->answers(p));
    control(p, "<|message|>");
    assert_int_equal(p->ops->answers(p), strcmp(channel, CHANNEL_ANSWER) == 0);
    assert_string_equal(channel_of(p, "text"), channel);
    control(p, "<|end|>");
    assert_null(channel_of(p, " "));
    control(p, "<|start|>");
    assert_null(channel_of(p, "assistant"));
}

static void test_channels(void **state)
{
    expect(*state, "analysis", "thinking");
    expect(*state, "commentary to=functions.f ", "thinking");
    expect(*state, "final", "answer");
    expect(*state, "finally and long", "thinking");
    expect(*state, "fin", "thinking");
    expect(*state, "", "thinking");
    expect(*state, "final", "answer");
}

/* A header without a channel, as a tool's message has it, does not begin the answer. */
static void test_a_message_without_a_channel(void **state)
{
    expect(*state, "final", "answer");
    control(*state, "<|message|>");
    assert_string_equal(channel_of(*state, "text"), "thinking");
}

/* Before <|channel|> the other marks mean nothing. */
static void test_without_channels(void **state)
{
    static const char *const marks[] = {"<|start|>", "<|message|>", "<|end|>", "<|channel|"};
    struct channel_parser *p = *state;
    assert_string_equal(channel_of(p, "text"), "answer");
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
        control(p, marks[i]);
        assert_false(p->ops->ends_part(p));
        assert_string_equal(channel_of(p, "text"), "answer");
    }
}

static void test_clone_within_a_name(void **state)
{
    struct channel_parser *p = *state, *q;
    control(p, "<|channel|>");
    assert_null(channel_of(p, "fin"));
    assert_int_equal(p->ops->clone(p, &q), 0);
    assert_null(channel_of(q, "al"));
    control(p, "<|message|>");
    control(q, "<|message|>");
    assert_string_equal(channel_of(p, "text"), "thinking");
    assert_string_equal(channel_of(q, "text"), "answer");
    q->ops->free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_channels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_message_without_a_channel, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_channels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clone_within_a_name, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
