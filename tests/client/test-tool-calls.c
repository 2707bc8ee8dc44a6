/* SPDX-License-Identifier: MIT */
/* tool-calls.c and conversation.c */
#include "client/conversation.h"
#include "libcommon/error.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static struct proto_event piece(uint32_t number, const char *id, const char *name, const char *arguments)
{
    struct proto_event e = {.type = PROTO_EV_TOOL_CALL, .part.number = number};

    if (id) assert_int_equal(proto_text_set(&e.part.call.id, id, strlen(id)), 0);
    if (name) assert_int_equal(proto_text_set(&e.part.call.name, name, strlen(name)), 0);
    assert_int_equal(proto_text_set(&e.part.call.arguments, arguments, strlen(arguments)), 0);
    return e;
}

static int add(struct tool_calls *c, uint32_t number, const char *id, const char *name, const char *arguments)
{
    struct proto_event e = piece(number, id, name, arguments);
    int r = tool_calls_add(c, &e);

    proto_event_fini(&e);
    return r;
}

static void expect_line(const struct tool_call *c, const char *want)
{
    struct buf line = BUF_INIT;

    assert_int_equal(buf_puts(&line, "> "), 0);
    assert_int_equal(tool_call_line(&line, c), want ? 0 : -EBADMSG);
    assert_string_equal(line.data + 2, want ? want : "");
    buf_fini(&line);
}

static void test_pieces_are_joined(void **state)
{
    struct tool_calls c = {0};

    assert_int_equal(add(&c, 0, "c0", "f", ""), 0);
    expect_line(&c.calls[0], "{\"id\": \"c0\", \"name\": \"f\", \"arguments\": {}}\n");
    assert_int_equal(add(&c, 0, NULL, NULL, "{\"a\""), 0);
    expect_line(&c.calls[0], NULL);
    assert_int_equal(add(&c, 0, NULL, NULL, ":\n1}"), 0);
    assert_int_equal(add(&c, 1, "c1", "g", "[]"), 0);
    assert_int_equal(c.n, 2);
    expect_line(&c.calls[0], "{\"id\": \"c0\", \"name\": \"f\", \"arguments\": {\"a\": 1}}\n");
    expect_line(&c.calls[1], NULL); /* not an object */
    tool_calls_fini(&c);
    assert_int_equal(c.n, 0);
}

static void test_pieces_come_in_order(void **state)
{
    struct tool_calls c = {0};

    assert_int_equal(add(&c, 1, "c1", "g", ""), -EPROTO);
    assert_int_equal(add(&c, 0, "c0", "f", ""), 0);
    assert_int_equal(add(&c, 2, "c2", "h", ""), -EPROTO);
    assert_int_equal(add(&c, 1, "c1", "g", ""), 0);
    assert_int_equal(add(&c, 0, NULL, NULL, "{}"), -EPROTO);
    assert_int_equal(add(&c, UINT32_MAX, NULL, NULL, "{}"), -EPROTO);
    for (uint32_t i = 2; i < PROTO_CALLS_MAX; i++) assert_int_equal(add(&c, i, NULL, "f", "{}"), 0);
    assert_int_equal(add(&c, PROTO_CALLS_MAX, NULL, "f", "{}"), -EPROTO);
    tool_calls_fini(&c);
}

static void test_withdrawn_calls_are_counted(void **state)
{
    struct proto_event e = {.type = PROTO_EV_TOOL_CALL, .part = {.withdrawn = true, .number = 1}};
    struct tool_calls c = {0};

    assert_int_equal(add(&c, 0, "c0", "f", "{}"), 0);
    assert_int_equal(add(&c, 1, "c1", "g", "{"), 0);
    assert_int_equal(tool_calls_add(&c, &e), 0);
    assert_int_equal(c.n, 1);
    assert_int_equal(tool_calls_add(&c, &e), -EPROTO);
    assert_int_equal(add(&c, 1, "c1", "g", "{"), -EPROTO);
    assert_int_equal(add(&c, 2, "c2", "h", "{}"), 0);
    assert_int_equal(c.n, 2);
    expect_line(&c.calls[1], "{\"id\": \"c2\", \"name\": \"h\", \"arguments\": {}}\n");
    tool_calls_fini(&c);
}

static bool is(const struct proto_text *t, const char *want)
{
    return t->len == strlen(want) && (t->len == 0 || memcmp(t->data, want, t->len) == 0);
}

static void test_answers_and_results_become_messages(void **state)
{
    struct answer_parts said = {0};
    struct proto_request r = {0};
    struct proto_generate *g = &r.gen;
    struct buf result = BUF_INIT;

    assert_int_equal(conversation_add(g, "user", "hi", 2, NULL), 0);
    assert_int_equal(buf_puts(&said.text, "one moment"), 0);
    assert_int_equal(buf_puts(&said.thinking, "hm"), 0);
    assert_int_equal(add(&said.calls, 0, "c0", "f", "{}"), 0);
    assert_int_equal(add(&said.calls, 1, NULL, "g", ""), 0);
    assert_int_equal(conversation_answer(g, &said), 0);
    assert_int_equal(buf_puts(&result, "42"), 0);
    assert_int_equal(conversation_result(g, &said.calls.calls[0], &result), 0);
    assert_int_equal(conversation_result(g, &said.calls.calls[1], &result), 0);
    assert_int_equal(g->n_messages, 4);
    const struct proto_message *m = g->messages;
    assert_true(is(&m[0].role, "user") && is(&m[0].content, "hi"));
    assert_true(is(&m[1].role, "assistant") && is(&m[1].content, "one moment") && is(&m[1].thinking, "hm"));
    assert_int_equal(m[1].n_calls, 2);
    assert_true(is(&m[1].calls[0].id, "c0") && is(&m[1].calls[0].name, "f") && is(&m[1].calls[0].arguments, "{}"));
    assert_true(is(&m[1].calls[1].name, "g") && is(&m[1].calls[1].arguments, "{}"));
    assert_true(is(&m[2].role, "tool") && is(&m[2].content, "42") && is(&m[2].call_id, "c0") && is(&m[2].name, "f"));
    assert_true(is(&m[3].role, "tool") && is(&m[3].content, "") && is(&m[3].call_id, "") && is(&m[3].name, "g"));
    answer_parts_fini(&said);
    buf_fini(&result);
    proto_request_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_joined),
        cmocka_unit_test(test_pieces_come_in_order),
        cmocka_unit_test(test_withdrawn_calls_are_counted),
        cmocka_unit_test(test_answers_and_results_become_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
