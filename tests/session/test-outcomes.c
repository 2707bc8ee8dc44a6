/* SPDX-License-Identifier: MIT */
/* The outcomes of a session, in memory and after a restart, and the message that belongs to one. Covers content.c. */
#include "daemon/session/session-log.h"
#include "tests/session/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT(s)                                                                                                        \
    {                                                                                                                  \
        (char *)(s), sizeof(s) - 1                                                                                     \
    }

static void add(struct session *x, unsigned n)
{
    struct session_outcome o = {.usage_prompt = n, .answer = TEXT("an answer")};
    snprintf(o.uuid, sizeof(o.uuid), "o-%u", n);
    assert_int_equal(session_add_outcome(x, &o), 0);
}

static void assert_same_after_a_restart(struct fixture *g, struct session *x)
{
    char *want = fixture_dump(x);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    fixture_close(g);
    fixture_open(g);
    x = fixture_acquire(g, 7, "a");
    char *have = fixture_dump(x);
    assert_string_equal(have, want);
    free(want);
    free(have);
    session_release(g->store, x);
}

/* More outcomes between two saves than a session keeps: the last ones stay, and are saved. */
static void test_more_than_are_kept(void **state)
{
    struct fixture *g = *state;
    for (unsigned round = 0; round < 2; round++) {
        struct session *x = fixture_acquire(g, 7, "a");
        fixture_turn(x, 1);
        for (unsigned i = 0; i < SESSION_OUTCOMES + 3; i++) add(x, 100 * round + i);
        assert_int_equal(x->content.n_outcomes, SESSION_OUTCOMES);
        assert_int_equal(fixture_last(x), 100 * round + SESSION_OUTCOMES + 2);
        assert_null(session_find_outcome(x, "o-2"));
        assert_same_after_a_restart(g, x);
    }
}

/* The last outcome can be taken back, saved or not; another one, or none, is left alone. */
static void test_taken_back(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    const struct session_outcome unnamed = {.usage_prompt = 5};
    session_drop_outcome(x, "o-1");
    assert_int_equal(session_add_outcome(x, &unnamed), 0); /* a request without UUID */
    assert_int_equal(x->content.n_outcomes, 0);
    fixture_turn(x, 1);
    add(x, 2);
    const size_t before = x->charged.memory;
    add(x, 3);
    session_drop_outcome(x, "o-2"); /* it is not the last */
    assert_int_equal(fixture_last(x), 3);
    session_drop_outcome(x, "o-3");
    assert_int_equal(fixture_last(x), 2);
    assert_int_equal(x->charged.memory, before);
    assert_int_equal(session_save(x), 0);
    session_drop_outcome(x, "o-2"); /* the log keeps it */
    assert_int_equal(fixture_last(x), 1);
    add(x, 4);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    fixture_close(g);
    fixture_open(g);
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(fixture_last(x), 4);
    assert_int_equal(x->content.n_outcomes, 3);
    session_release(g->store, x);
}

static void add_call(struct session *x, const char *content)
{
    struct proto_call call = {TEXT("id"), TEXT("f"), TEXT("{}")};
    const struct proto_message m = {.role = TEXT("assistant"),
                                    .content = {(char *)(uintptr_t)content, strlen(content)},
                                    .calls = &call,
                                    .n_calls = 1};
    assert_int_equal(session_add_parts(x, &m), 0);
}

/* By its number; without one the only message with calls and the same text. */
static void test_message(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    struct session_outcome o = {.answer = TEXT("one"), .message = 1}, empty = {0};
    assert_null(session_outcome_message(x, &o));
    assert_null(session_outcome_message(x, &empty));
    assert_int_equal(session_add_message(x, "assistant", 9, "one", 3), 0);
    assert_ptr_equal(session_outcome_message(x, &o), &x->content.messages[0]);
    o.message = 2;
    assert_null(session_outcome_message(x, &o));
    o.message = 0;
    assert_null(session_outcome_message(x, &o)); /* it has no calls */
    add_call(x, "two");
    add_call(x, "onE");
    add_call(x, "one more");
    assert_null(session_outcome_message(x, &o));
    assert_null(session_outcome_message(x, &empty));
    add_call(x, "one");
    assert_ptr_equal(session_outcome_message(x, &o), &x->content.messages[4]);
    add_call(x, "");
    assert_ptr_equal(session_outcome_message(x, &empty), &x->content.messages[5]);
    assert_ptr_equal(session_outcome_message(x, &o), &x->content.messages[4]);
    add_call(x, "one");
    assert_null(session_outcome_message(x, &o)); /* which of them? */
    o.message = 5;
    assert_ptr_equal(session_outcome_message(x, &o), &x->content.messages[4]);
    session_revert(x);
    session_release(g->store, x);
}

/* Messages that are dropped belong to no outcome any more; what is kept stays its outcome's. */
static void test_dropped_messages(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    const struct session_outcome first = {.uuid = "first", .answer = TEXT("one"), .message = 1};
    const struct session_outcome second = {.uuid = "second", .answer = TEXT("two"), .message = 2};
    add_call(x, "one");
    add_call(x, "two");
    assert_int_equal(session_add_outcome(x, &first), 0);
    assert_int_equal(session_add_outcome(x, &second), 0);
    add(x, 1);                   /* whose message is not known */
    session_drop_messages(x, 2); /* none is dropped */
    session_drop_messages(x, 3);
    assert_int_equal(session_find_outcome(x, "o-1")->message, 0);
    assert_int_equal(session_find_outcome(x, "second")->message, 2);
    session_drop_messages(x, 1);
    assert_int_equal(session_find_outcome(x, "o-1")->message, SIZE_MAX);
    add_call(x, "two");
    assert_ptr_equal(session_outcome_message(x, session_find_outcome(x, "first")), &x->content.messages[0]);
    assert_null(session_outcome_message(x, session_find_outcome(x, "second")));
    session_revert(x);
    session_release(g->store, x);
}

/* A log does not say which message an outcome belongs to. It is the last one of its turn, if that alone is an answer,
 * and the turn has one outcome. */
static void test_message_after_a_restart(void **state)
{
    static const struct {
        const char *roles[3];
        int outcomes;
        size_t want;
    } turns[] = {
        {{"user", "assistant"}, 1, 2},      {{"assistant", "tool", "assistanT"}, 1, 0},
        {{"assistant", "assistant"}, 1, 0}, {{"user", "assistant", "user"}, 1, 0},
        {{"user", "assistant "}, 1, 0},     {{"user", "assistanT"}, 1, 0},
        {{"user", "assistant"}, 2, 0},      {{"user"}, 1, 0},
    };
    struct fixture *g = *state;
    char name[8];
    for (size_t i = 0; i < sizeof(turns) / sizeof(*turns); i++) {
        snprintf(name, sizeof(name), "s%zu", i);
        struct session *x = fixture_acquire(g, 7, name);
        for (int k = 0; k < 3 && turns[i].roles[k]; k++)
            assert_int_equal(session_add_message(x, turns[i].roles[k], strlen(turns[i].roles[k]), "m", 1), 0);
        for (int k = 0; k < turns[i].outcomes; k++) add(x, (unsigned)k + 1);
        assert_int_equal(session_save(x), 0);
        session_release(g->store, x);
    }
    fixture_close(g);
    fixture_open(g);
    for (size_t i = 0; i < sizeof(turns) / sizeof(*turns); i++) {
        snprintf(name, sizeof(name), "s%zu", i);
        struct session *x = fixture_acquire(g, 7, name);
        assert_int_equal(x->content.n_outcomes, turns[i].outcomes);
        assert_int_equal(x->content.outcomes[0].message, turns[i].want);
        session_release(g->store, x);
    }
}

/* Only an assistant's message is an answer, not one of a role with as many letters. */
static void test_answer_by_role(void **state)
{
    struct fixture *g = *state;
    static const char *const roles[] = {"assistant", "developer", "assistan", "assistants"};
    for (int i = 0; i < 4; i++) {
        struct session *x = fixture_acquire(g, 7, roles[i]);
        const struct session_outcome o = {.uuid = "turn", .answer = TEXT("yes")};
        assert_int_equal(session_add_message(x, roles[i], strlen(roles[i]), "yes", 3), 0);
        assert_int_equal(session_add_outcome(x, &o), 0);
        assert_int_equal(session_save(x), 0);
        session_release(g->store, x);
        while (session_unload_idle(g->store)) continue;
        x = fixture_acquire(g, 7, roles[i]);
        assert_int_equal(session_content(x)->outcomes[0].message, i == 0);
        session_release(g->store, x);
    }
}

/* Each part of a message is stored, also alone, and an end of a turn that old records do not know: in a record that an
 * old hobd refuses, because it would lose the part. */
static void test_parts_alone(void **state)
{
    static struct proto_call call = {TEXT("id"), TEXT("f"), TEXT("{}")};
    static const struct {
        struct proto_message m;
        enum proto_reason reason;
        bool newer;
    } turns[] = {
        {{.thinking = TEXT("hm")}, PROTO_STOP_EOS, true}, {{.call_id = TEXT("id")}, PROTO_STOP_EOS, true},
        {{.name = TEXT("f")}, PROTO_STOP_EOS, true},      {{.calls = &call, .n_calls = 1}, PROTO_STOP_EOS, true},
        {{.role = {0}}, PROTO_STOP_TOOL_CALLS, true},     {{.role = {0}}, PROTO_STOP_CONTEXT, false},
    };
    struct fixture *g = *state;
    char path[256];
    for (size_t i = 0; i < sizeof(turns) / sizeof(*turns); i++) {
        struct proto_message m = turns[i].m;
        const struct session_outcome o = {.uuid = "turn", .reason = turns[i].reason, .answer = TEXT("yes")};
        m.role = (struct proto_text)TEXT("tool");
        m.content = (struct proto_text)TEXT("yes");
        struct session *x = fixture_acquire(g, 7, "a");
        assert_int_equal(session_add_parts(x, &m), 0);
        assert_int_equal(session_add_outcome(x, &o), 0);
        assert_int_equal(session_save(x), 0);
        session_release(g->store, x);
        while (session_unload_idle(g->store)) continue;
        size_t n;
        fixture_path(path, g, 7, "a", ".log");
        char *log = fixture_read(path, &n);
        assert_int_equal(log[16 + 16 + 38 + 16 + 4], turns[i].newer ? SESSION_LOG_KIND_PARTS : SESSION_LOG_KIND_TURN);
        free(log);
        x = fixture_acquire(g, 7, "a");
        const struct proto_message *have = &session_content(x)->messages[0];
        assert_int_equal(have->thinking.len, m.thinking.len);
        assert_int_equal(have->call_id.len, m.call_id.len);
        assert_int_equal(have->name.len, m.name.len);
        assert_int_equal(have->n_calls, m.n_calls);
        assert_int_equal(session_content(x)->outcomes[0].reason, o.reason);
        assert_int_equal(session_erase(x), 0);
        session_release(g->store, x);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_more_than_are_kept),
        TEST(test_taken_back),
        TEST(test_message),
        TEST(test_dropped_messages),
        TEST(test_message_after_a_restart),
        cmocka_unit_test_setup_teardown(test_answer_by_role, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_parts_alone, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
