/* SPDX-License-Identifier: MIT */
/* tool-loop.c, tool-call-run.c and thought.c: what hob makes of calls and of thinking, with a scripted daemon. */
#include "tests/client/peer.h"
#include "tests/support/folder.h"
#include <errno.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

static char folder[FOLDER_PATH];

static void call(struct peer *p, uint32_t number, const char *id, const char *name, const char *arguments)
{
    const struct proto_event e = {.type = PROTO_EV_TOOL_CALL,
                                  .id = 1,
                                  .part = {false,
                                           number,
                                           {{(char *)id, id ? strlen(id) : 0},
                                            {(char *)name, name ? strlen(name) : 0},
                                            {(char *)arguments, strlen(arguments)}}}};

    peer_send(p, &e);
}

static void think(struct peer *p, const char *text)
{
    const struct proto_event e = {
        .type = PROTO_EV_TEXT, .id = 1, .channel = "thinking", .text = {(char *)text, strlen(text)}};

    peer_send(p, &e);
}

static void done_in(struct peer *p, const char *session)
{
    const struct proto_event e = {.type = PROTO_EV_DONE,
                                  .id = 1,
                                  .reason = PROTO_STOP_TOOL_CALLS,
                                  .miss_at = -1,
                                  .session = {(char *)session, session ? strlen(session) : 0}};

    peer_send(p, &e);
}

/* The request of this connection as one line of text, which the answer repeats. */
static void echo(struct peer *p, struct proto_request *r)
{
    char text[4096];
    int n = snprintf(text, sizeof(text), "%s%s %d|", r->gen.session.len ? r->gen.session.data : "",
                     r->gen.continue_last ? "continue" : "", (int)r->tools.choice);

    for (size_t i = 0; i < r->gen.n_messages; i++) {
        const struct proto_message *m = &r->gen.messages[i];
        n +=
            snprintf(text + n, sizeof(text) - (size_t)n, "%s(%s%s%s%s)%s", m->role.data,
                     m->thinking.len ? m->thinking.data : "", m->content.len ? m->content.data : "",
                     m->call_id.len ? "@" : "", m->call_id.len ? m->call_id.data : "", m->name.len ? m->name.data : "");
        for (size_t k = 0; k < m->n_calls; k++)
            n += snprintf(text + n, sizeof(text) - (size_t)n, "<%s %s>", m->calls[k].name.data,
                          m->calls[k].arguments.len ? m->calls[k].arguments.data : "");
        n += snprintf(text + n, sizeof(text) - (size_t)n, ";");
    }
    peer_text(p, text);
}

static void take(struct peer *p, struct proto_request *r)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_take(p, PROTO_GENERATE, r);
    peer_hello(p);
}

static void asks_two(struct peer *p)
{
    struct proto_request r;

    take(p, &r);
    if (!r.tools.list.len) peer_error(p, EINVAL, "no tools");
    think(p, "hm");
    peer_text(p, "Let me see.");
    call(p, 0, "c0", "upper", "{\"text\":");
    call(p, 0, NULL, NULL, "\"hi\"}");
    call(p, 1, "c1", "upper", "{}");
    done_in(p, NULL);
    proto_request_fini(&r);
}

static void repeats(struct peer *p)
{
    struct proto_request r;

    take(p, &r);
    echo(p, &r);
    peer_done(p, PROTO_STOP_EOS);
    proto_request_fini(&r);
}

static void asks_in_a_session(struct peer *p)
{
    struct proto_request r;

    take(p, &r);
    call(p, 0, "c0", "upper", "{}");
    done_in(p, "s7");
    proto_request_fini(&r);
}

static void asks_again(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    call(p, 0, "c0", "upper", "{\"text\":\"x\"}");
    done_in(p, NULL);
}

static void asks_nonsense(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    call(p, 0, "c0", "lower", "{}");
    call(p, 1, "c1", "upper", "{\"text\"");
    call(p, 2, "c2", "upper", "[1]");
    call(p, 3, "c3", "fails", "{}");
    done_in(p, NULL);
}

static void asks_for_sleep(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    call(p, 0, "c0", "sleeps", "{}");
    done_in(p, NULL);
}

static void cut(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    call(p, 0, "c0", "upper", "{\"text\":\"x\"}");
    call(p, 1, "c1", "upper", "{\"te");
    peer_done(p, PROTO_STOP_LENGTH);
}

static void thinks(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    think(p, "one\x1b[2J ");
    think(p, "two");
    peer_text(p, "the answer");
    peer_done(p, PROTO_STOP_EOS);
}

static void thinks_only(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    think(p, "too long\n");
    peer_done(p, PROTO_STOP_LENGTH);
}

static void warns(struct peer *p)
{
    const struct proto_event e = {.type = PROTO_EV_WARNING, .id = 1, .message = {(char *)"keyword \x1bx ignored", 18}};

    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_send(p, &e);
    peer_text(p, "{}");
    peer_done(p, PROTO_STOP_EOS);
}

static void wrong_order(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    call(p, 3, "c3", "upper", "{}");
    done_in(p, NULL);
}

/* A call that comes back as text, and one that is whole. */
static void withdraws(struct peer *p)
{
    const struct proto_event e = {.type = PROTO_EV_TOOL_CALL, .id = 1, .part = {.withdrawn = true}};

    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    call(p, 0, "c0", "upper", "{\"te");
    peer_send(p, &e);
    peer_text(p, "<call>");
    call(p, 1, "c1", "upper", "{}");
    done_in(p, NULL);
}

static const char *path(const char *name)
{
    return folder_at(folder, name);
}

static void run(struct peer_result *r, const peer_script *scripts, int status, const char *out, const char *err,
                const char *const *args)
{
    peer_run(r, scripts, -1, args);
    assert_string_equal(r->err, err);
    assert_string_equal(r->out, out);
    assert_int_equal(r->status, status);
    peer_fini(r);
}

#define SCRIPTS(...)                                                                                                   \
    (const peer_script[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }
#define RUN(scripts, status, out, err, ...) run(&r, scripts, status, out, err, (const char *const[]){__VA_ARGS__, NULL})

static void test_results_are_sent(void **state)
{
    struct peer_result r;

    RUN(SCRIPTS(asks_two, repeats), 0,
        "Let me see.\n 1|user(hello);assistant(hmLet me see.)<upper {\"text\":\"hi\"}><upper {}>;"
        "tool({\"TEXT\": \"HI\"}@c0)upper;tool({}@c1)upper;\n",
        "hob: upper {\"text\": \"hi\"}\nhob: upper {}\n", "--tool", path("upper"), "--yes", "--tool-choice", "required",
        "hello");
    RUN(SCRIPTS(repeats), 0, " 0|user(hello);\n", "", "--tool", path("upper"), "--yes", "hello");
}

/* The daemon has what was said before. */
static void test_a_session_gets_only_new_messages(void **state)
{
    struct peer_result r;

    RUN(SCRIPTS(asks_in_a_session, asks_in_a_session, repeats), 0, "s7 0|tool({}@c0)upper;\n", "", "--tool",
        path("upper"), "--yes", "-q", "-c", "-s", "be brief", "hello");
}

static void test_each_request_has_its_own_uuid(void **state)
{
    struct peer_result r;

    peer_run(&r, SCRIPTS(asks_two, asks_again, repeats), -1,
             (const char *const[]){"--tool", path("upper"), "--yes", "-q", "hello", NULL});
    assert_int_equal(r.connections, 3);
    peer_fini(&r);
}

static void test_failures_are_results(void **state)
{
    struct peer_result r;

    RUN(SCRIPTS(asks_nonsense, repeats), 0,
        " 0|user(hello);assistant()<lower {}><upper {}><upper {}><fails {}>;"
        "tool(error: there is no tool lower; the tools are: upper fails@c0)lower;"
        "tool(error: invalid arguments: not JSON: no colon at byte 7@c1)upper;"
        "tool(error: invalid arguments: not a JSON object@c2)upper;"
        "tool(error: exit status 4\nnot today@c3)fails;\n",
        "hob: the model called lower, which is no tool\n"
        "hob: upper: invalid arguments: not JSON: no colon at byte 7\n"
        "hob: upper: invalid arguments: not a JSON object\n"
        "hob: fails {}\nnot today\nhob: fails: exit status 4\n",
        "--tool", path("upper"), "--tool", path("fails"), "--yes", "hello");
}

static void test_a_tool_without_a_result(void **state)
{
    struct peer_result r;

    RUN(SCRIPTS(asks_for_sleep, repeats), 0,
        " 0|user(hello);assistant()<sleeps {}>;tool(error: no result within 1 s@c0)sleeps;\n",
        "hob: sleeps {}\nhob: sleeps: no result within 1 s\n", "--tool", path("sleeps"), "--yes", "--tool-timeout",
        "300ms", "hello");
}

static void test_rounds_are_bounded(void **state)
{
    struct peer_result r;

    RUN(SCRIPTS(asks_again, asks_again, repeats), 0,
        " 2|user(x);assistant()<upper {\"text\":\"x\"}>;tool({\"TEXT\": \"X\"}@c0)upper;"
        "assistant()<upper {\"text\":\"x\"}>;tool({\"TEXT\": \"X\"}@c0)upper;\n",
        "", "--tool", path("upper"), "--yes", "-q", "--tool-rounds", "2", "x");
    RUN(SCRIPTS(asks_again, asks_again), 1, "", "hob: the model calls tools after 1 rounds of calls (--tool-rounds)\n",
        "--tool", path("upper"), "--yes", "-q", "--tool-rounds", "1", "x");
}

static void test_calls_that_hob_does_not_run(void **state)
{
    struct peer_result r;

    assert_int_equal(folder_put(folder, "list.json", "[{\"type\":\"function\",\"function\":{\"name\":\"upper\"}}]"), 0);
    RUN(SCRIPTS(asks_two), 0,
        "Let me see.\n{\"id\": \"c0\", \"name\": \"upper\", \"arguments\": {\"text\": \"hi\"}}\n"
        "{\"id\": \"c1\", \"name\": \"upper\", \"arguments\": {}}\n",
        "", "--tools", path("list.json"), "hello");
    RUN(SCRIPTS(cut), 0, "{\"id\": \"c0\", \"name\": \"upper\", \"arguments\": {\"text\": \"x\"}}\n",
        "hob: the call of upper is incomplete\nhob: answer cut after 7 tokens: limit of --max-tokens\n", "--tools",
        path("list.json"), "hello");
    RUN(SCRIPTS(repeats), 0, " 4|user(hello);\n", "", "--tools", path("list.json"), "--tool-choice", "upper", "hello");
    RUN(SCRIPTS(withdraws), 0, "<call>\n{\"id\": \"c1\", \"name\": \"upper\", \"arguments\": {}}\n", "", "--tools",
        path("list.json"), "hello");
    RUN(SCRIPTS(withdraws, repeats), 0, "<call>\n 0|user(hello);assistant(<call>)<upper {}>;tool({}@c1)upper;\n", "",
        "--tool", path("upper"), "--yes", "-q", "hello");
    RUN(SCRIPTS(wrong_order), 1, "", "hob: the daemon sent a part of call 3 after 0 calls\n", "--tools",
        path("list.json"), "hello");
    /* A call that is not whole is not run either. */
    RUN(SCRIPTS(cut), 0, "", "hob: answer cut after 7 tokens: limit of --max-tokens\n", "--tool", path("upper"),
        "--yes", "hello");
}

static void test_events(void **state)
{
    struct peer_result r;

    peer_run(&r, SCRIPTS(asks_again, repeats), -1,
             (const char *const[]){"--tool", path("upper"), "--yes", "-q", "--jsonl", "x", NULL});
    assert_non_null(strstr(r.out, "{\"event\":\"tool_call\",\"index\":0,\"id\":\"c0\",\"name\":\"upper\","
                                  "\"arguments\":\"{\\\"text\\\":\\\"x\\\"}\"}\n"));
    assert_non_null(strstr(r.out, "{\"event\":\"done\",\"reason\":\"tool_calls\",\"text\":\"\","));
    assert_non_null(strstr(r.out, "{\"event\":\"tool_result\",\"id\":\"c0\",\"name\":\"upper\","
                                  "\"content\":\"{\\\"TEXT\\\": \\\"X\\\"}\"}\n"));
    assert_int_equal(r.status, 0);
    peer_fini(&r);
}

static void test_no_terminal_and_no_yes(void **state)
{
    struct peer_result r;

    RUN(SCRIPTS(repeats), 2, "",
        "hob: --tool: each call of a tool needs a yes at a terminal, and there is none; with --yes all calls run\n",
        "--tool", path("upper"), "x");
}

static void test_thinking(void **state)
{
    struct peer_result r;

    RUN(SCRIPTS(thinks), 0, "the answer\n", "", "x");
    RUN(SCRIPTS(thinks), 0, "one\x1b[2J two\n\nthe answer\n", "", "--think", "show", "x");
    RUN(SCRIPTS(thinks), 0, "the answer\n", "one\x1b[2J two\n", "--think", "stderr", "x");
    RUN(SCRIPTS(thinks), 0, "the answer\n", "", "--think", "hide", "x");
    RUN(SCRIPTS(thinks_only), 0, "too long\n",
        "hob: answer cut after 7 tokens, all of them thinking: limit of --max-tokens\n", "--think", "show", "x");
}

static void test_thinking_on_a_terminal(void **state)
{
    static const char want[] = "\x1b[2mone\xe2\x90\x9b[2J two\x1b[0m\r\n\r\nthe answer\r\n";
    char out[256];
    struct peer_result r;
    int master, slave;

    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    peer_run(&r, SCRIPTS(thinks), slave, (const char *const[]){"--think", "show", "x", NULL});
    peer_terminal(master, out, sizeof(out), want);
    assert_string_equal(out, want);
    peer_fini(&r);
    close(master);
    close(slave);
}

static void test_warnings(void **state)
{
    struct peer_result r;

    RUN(SCRIPTS(warns), 0, "{}\n", "hob: keyword \xe2\x90\x9bx ignored\n", "--schema", "{}", "--schema-lenient", "x");
}

static int script(const char *name, const char *text)
{
    int r = folder_put(folder, name, text);
    return r == 0 ? chmod(path(name), 0755) : r;
}

static int setup(void **state)
{
    int r = folder_make(folder, "loop");
    if (r == 0)
        r = script("upper",
                   "#!/bin/sh\n[ \"$1\" = --describe ] && { echo '{\"name\": \"upper\"}'; exit; }\ntr a-z A-Z\n");
    if (r == 0)
        r = script("fails", "#!/bin/sh\n[ \"$1\" = --describe ] && { echo '{\"name\": \"fails\"}'; exit; }\n"
                            "echo not today >&2; exit 4\n");
    if (r == 0)
        r = script("sleeps", "#!/bin/sh\n[ \"$1\" = --describe ] && { echo '{\"name\": \"sleeps\"}'; exit; }\n"
                             "sleep 1000\n");
    return r;
}

static int teardown(void **state)
{
    return folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_are_sent),
        cmocka_unit_test(test_a_session_gets_only_new_messages),
        cmocka_unit_test(test_each_request_has_its_own_uuid),
        cmocka_unit_test(test_failures_are_results),
        cmocka_unit_test(test_a_tool_without_a_result),
        cmocka_unit_test(test_rounds_are_bounded),
        cmocka_unit_test(test_calls_that_hob_does_not_run),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_no_terminal_and_no_yes),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_thinking_on_a_terminal),
        cmocka_unit_test(test_warnings),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
