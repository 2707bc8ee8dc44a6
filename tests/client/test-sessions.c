/* SPDX-License-Identifier: MIT */
/* hob sessions: which request goes out, what comes of the answer, and of none. */
#include "tests/client/peer.h"
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

#define LIST "[{\"name\":\"a\",\"used\":1,\"messages\":2,\"tokens\":40,\"raw\":false,\"busy\":true,\"bytes\":9}]"
#define SHOW "{\"name\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

static void expect(struct peer_result *r, int status, const char *out, const char *err)
{
    assert_string_equal(r->err, err);
    assert_string_equal(r->out, out);
    assert_int_equal(r->status, status);
    peer_fini(r);
}

static void send_sessions(struct peer *p, uint64_t id, const char *json)
{
    peer_send(p, &(struct proto_event){.type = PROTO_EV_SESSIONS, .id = id, .sessions = {(char *)json, strlen(json)}});
}

static void send_error(struct peer *p, uint64_t id, int code, const char *message)
{
    peer_send(p, &(struct proto_event){
                     .type = PROTO_EV_ERROR, .id = id, .code = code, .message = {(char *)message, strlen(message)}});
}

/* The next request of @type is about these names; its id. */
static uint64_t about(struct peer *p, enum proto_type type, const char *name, const char *to)
{
    struct proto_request r;
    uint64_t id;

    peer_take(p, type, &r);
    assert_string_equal(r.name.data ? r.name.data : "", name);
    assert_string_equal(r.to.data ? r.to.data : "", to);
    id = r.id;
    proto_request_fini(&r);
    return id;
}

static void list(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    send_sessions(p, about(p, PROTO_SESSION_LIST, "", ""), LIST);
}

static void list_nonsense(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_LIST);
    peer_hello(p);
    send_sessions(p, 1, "no sessions, as ever");
}

static void list_none(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_LIST);
    peer_hello(p);
    send_sessions(p, 1, "[]");
}

static void test_list(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, list_none, "sessions");
    expect(&r, 0, "", "hob: no sessions\n");
    PEER_RUN(&r, list_none, "sessions", "--json");
    expect(&r, 0, "[]\n", "");

    PEER_RUN(&r, list, "sessions");
    expect(&r, 0, "NAME  MESSAGES  TOKENS  SIZE  LAST USED\na            2      40    9B  in use\n", "");
    PEER_RUN(&r, list, "sessions", "list", "--json");
    expect(&r, 0, LIST "\n", "");
    PEER_RUN(&r, list_nonsense, "sessions", "list");
    assert_non_null(strstr(r.err, "the daemon's sessions"));
    assert_string_equal(r.out, "");
    assert_int_equal(r.status, 1);
    peer_fini(&r);
}

#define ONE(name) "{\"name\":\"" name "\",\"used\":1,\"messages\":2,\"tokens\":40,\"bytes\":9}"

/* The next request wants what is behind @after; the answer, with @next behind it. */
static void send_page(struct peer *p, const char *after, const char *json, const char *next)
{
    struct proto_request r;

    peer_take(p, PROTO_SESSION_LIST, &r);
    assert_string_equal(r.after.data ? r.after.data : "", after);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_SESSIONS,
                                       .id = r.id,
                                       .sessions = {(char *)json, strlen(json)},
                                       .next = {(char *)next, strlen(next)}});
    proto_request_fini(&r);
}

/* An empty page in the middle is no end: all of it may have been removed. */
static void list_pages(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    send_page(p, "", "[" ONE("a") "," ONE("b") "]", "to c");
    send_page(p, "to c", "[ ]", "to d");
    send_page(p, "to d", "[\n" ONE("d") "]", "to e");
    send_page(p, "to e", "[]", "");
}

static void list_first_page(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    send_page(p, "", "[" ONE("a") "]", "to b");
    peer_expect_next(p, PROTO_SESSION_LIST);
}

static void list_second_page(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    send_page(p, "to b", "[" ONE("b") "]", "");
}

static void list_refused_page(struct peer *p)
{
    list_first_page(p);
    send_error(p, 2, EINVAL, "session.list: after: no");
}

static void list_nonsense_page(struct peer *p)
{
    list_first_page(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_SESSIONS, .id = 2, .sessions = {(char *)"{}", 2}});
}

/* All pages are one list, which is printed as a whole or not at all. */
static void test_list_in_pages(void **state)
{
    static const char *const json[] = {"sessions", "--json", NULL};
    struct peer_result r;

    PEER_RUN(&r, list_pages, "sessions", "--json");
    expect(&r, 0, "[" ONE("a") "," ONE("b") "," ONE("d") "]\n", "");
    PEER_RUN(&r, list_pages, "sessions");
    expect(&r, 0,
           "NAME  MESSAGES  TOKENS  SIZE  LAST USED\n"
           "a            2      40    9B  1970-01-01\n"
           "b            2      40    9B  1970-01-01\n"
           "d            2      40    9B  1970-01-01\n",
           "");
    PEER_RUN(&r, list_refused_page, "sessions", "--json");
    expect(&r, 1, "", "hob: session.list: after: no\n");
    PEER_RUN(&r, list_nonsense_page, "sessions", "--json");
    expect(&r, 1, "", "hob: the daemon's sessions are not a list\n");
    /* The daemon goes between two pages: the next one is asked for the second. */
    peer_run(&r, (const peer_script[]){list_first_page, list_second_page, NULL}, -1, json);
    assert_int_equal(r.connections, 2);
    expect(&r, 0, "[" ONE("a") "," ONE("b") "]\n", "");
}

#define OWN "{\"own\":{\"sessions\":1,\"sessions_bytes\":4096,\"sessions_max_bytes\":1073741824}}"

static void list_long(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_LIST);
    peer_hello(p);
    send_sessions(p, 1,
                  "[{\"name\":\"a name that is longer than the terminal is wide, by far\",\"used\":1,\"messages\":1000,"
                  "\"tokens\":32768,\"busy\":true,\"bytes\":4096}]");
    peer_expect_next(p, PROTO_STATUS);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_STATUS, .id = 2, .status = {(char *)OWN, sizeof OWN - 1}});
}

static void show_raw(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_SHOW);
    peer_hello(p);
    send_sessions(p, 1, "{\"raw\":true,\"text\":\"Once\\u001b\"}");
}

static void on_a_terminal(peer_script script, const char *const *args, const char *want)
{
    struct winsize size = {.ws_col = 40, .ws_row = 10};
    char text[1024] = "";
    struct peer_result r;
    int master, slave;

    assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
    peer_run(&r, (const peer_script[]){script, NULL}, slave, args);
    peer_terminal(master, text, sizeof text, want);
    close(master);
    close(slave);
    assert_string_equal(text, want);
    assert_int_equal(r.status, 0);
    peer_fini(&r);
}

static void test_on_a_terminal(void **state)
{
    struct peer_result r;

    on_a_terminal(list_long, (const char *const[]){"sessions", NULL},
                  "NAME           MESSAGES  SIZE  LAST USED\r\n"
                  "a name that …      1000    4K  in use\r\n"
                  "1 session, 4K of 1G\r\n");
    on_a_terminal(show_raw, (const char *const[]){"sessions", "show", "a", NULL}, "Once\u241b\r\n");
    /* Elsewhere it is as it is. */
    PEER_RUN(&r, show_raw, "sessions", "show", "a");
    expect(&r, 0, "Once\033", "");
}

static void show(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    send_sessions(p, about(p, PROTO_SESSION_SHOW, "a b", ""), SHOW);
}

static void show_none(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_SHOW);
    peer_hello(p);
    send_error(p, 1, ENOENT, "there is no session 'x'");
}

static void test_show(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, show, "sessions", "show", "a b");
    expect(&r, 0, "[user]\nhi\n", "");
    PEER_RUN(&r, show, "sessions", "show", "a b", "--json");
    expect(&r, 0, SHOW "\n", "");
    PEER_RUN(&r, show_none, "sessions", "show", "x");
    assert_int_equal(r.connections, 1);
    expect(&r, 1, "", "hob: there is no session 'x'\n");
}

static void fork_it(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_OK, .id = about(p, PROTO_SESSION_FORK, "a", "b")});
}

static void rename_it(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_OK, .id = about(p, PROTO_SESSION_RENAME, "a", "b")});
}

static void rename_refused(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_RENAME);
    peer_hello(p);
    send_error(p, 1, EEXIST, "there is a session 'b'");
}

static void rename_busy(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_RENAME);
    peer_hello(p);
    send_error(p, 1, EBUSY, "session 'a' is answering");
}

static void test_fork_and_rename(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, fork_it, "sessions", "fork", "a", "b");
    expect(&r, 0, "", "");
    PEER_RUN(&r, rename_it, "sessions", "rename", "a", "b");
    expect(&r, 0, "", "");
    PEER_RUN(&r, rename_refused, "sessions", "rename", "a", "b");
    expect(&r, 1, "", "hob: there is a session 'b'\n");
    PEER_RUN(&r, rename_busy, "sessions", "rename", "a", "b");
    expect(&r, 75, "", "hob: session 'a' is answering\n");
}

static void remove_three(struct peer *p)
{
    uint64_t id;

    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    id = about(p, PROTO_SESSION_REMOVE, "a", "");
    peer_send(p, &(struct proto_event){.type = PROTO_EV_OK, .id = id});
    id = about(p, PROTO_SESSION_REMOVE, "b", "");
    send_error(p, id, ENOENT, "there is no session 'b'");
    id = about(p, PROTO_SESSION_REMOVE, "c", "");
    peer_send(p, &(struct proto_event){.type = PROTO_EV_OK, .id = id - 1}); /* not of this request */
    peer_send(p, &(struct proto_event){.type = PROTO_EV_OK, .id = id});
}

static void test_remove_continues_after_a_failure(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, remove_three, "sessions", "rm", "a", "b", "c");
    assert_int_equal(r.connections, 1);
    expect(&r, 1, "", "hob: there is no session 'b'\n");
}

static void hang_up(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
}

static void draining_remove(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_REMOVE);
    peer_hello(p);
    send_error(p, 1, ESHUTDOWN, "the daemon is stopping");
}

static void greet_and_hang_up(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_REMOVE);
    peer_hello(p);
}

static void greet_and_hang_up_list(struct peer *p)
{
    peer_expect(p, PROTO_SESSION_LIST);
    peer_hello(p);
}

static void remove_one(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_hello(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_OK, .id = about(p, PROTO_SESSION_REMOVE, "a", "")});
}

/* A daemon that is stopping has not changed anything. After hello and a closed connection this is unknown. */
static void test_retry_only_if_safe(void **state)
{
    static const char *const rm[] = {"sessions", "rm", "a", NULL}, *const ls[] = {"sessions", NULL};
    struct peer_result r;

    peer_run(&r, (const peer_script[]){hang_up, draining_remove, remove_one, NULL}, -1, rm);
    assert_int_equal(r.connections, 3);
    expect(&r, 0, "", "");
    PEER_RUN(&r, greet_and_hang_up, "sessions", "rm", "a");
    assert_int_equal(r.connections, 1);
    expect(&r, 69, "", "hob: the daemon closed the connection before it answered\n");
    peer_run(&r, (const peer_script[]){greet_and_hang_up_list, list, NULL}, -1, ls);
    assert_int_equal(r.connections, 2);
    assert_int_equal(r.status, 0);
    peer_fini(&r);
    PEER_RUN(&r, hang_up, "sessions");
    assert_int_equal(r.connections, 4);
    expect(&r, 69, "", "hob: the daemon closed the connection without an answer; try again\n");
}

static void too_many(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    send_error(p, 0, EBUSY, "uid 0 has 64 connections and gets no more; try again");
}

static void test_refused_connection(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, too_many, "sessions");
    expect(&r, 75, "", "hob: uid 0 has 64 connections and gets no more; try again\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_list_in_pages),
        cmocka_unit_test(test_on_a_terminal),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_fork_and_rename),
        cmocka_unit_test(test_remove_continues_after_a_failure),
        cmocka_unit_test(test_retry_only_if_safe),
        cmocka_unit_test(test_refused_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
