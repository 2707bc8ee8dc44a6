/* SPDX-License-Identifier: MIT */
#include "daemon/io/conn.h"
#include "daemon/io/conns.h"
#include "libcommon/error.h"
#include "tests/io/linger.h"
#include "tests/io/wire.h"
#include <fcntl.h>
#include <msgpack.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 4096 };

/* The next call fails (the linker sends the daemon's calls here). */
static bool unpack_fails, text_fails;

msgpack_unpack_return __real_msgpack_unpack_next(msgpack_unpacked *u, const char *data, size_t len, size_t *off);
msgpack_unpack_return __wrap_msgpack_unpack_next(msgpack_unpacked *u, const char *data, size_t len, size_t *off);
int __real_proto_text_set(struct proto_text *t, const char *s, size_t n);
int __wrap_proto_text_set(struct proto_text *t, const char *s, size_t n);

msgpack_unpack_return __wrap_msgpack_unpack_next(msgpack_unpacked *u, const char *data, size_t len, size_t *off)
{
    if (!unpack_fails) return __real_msgpack_unpack_next(u, data, len, off);
    unpack_fails = false;
    return MSGPACK_UNPACK_NOMEM_ERROR;
}

int __wrap_proto_text_set(struct proto_text *t, const char *s, size_t n)
{
    if (!text_fails) return __real_proto_text_set(t, s, n);
    text_fails = false;
    return error_origin(-ENOMEM);
}

/* One connection, its peer, and what its owner was told. */
struct fixture {
    sd_event *event;
    struct accounts *accounts;
    struct account *account;
    struct conns conns;
    struct conn *conn;
    struct wire peer;
    struct conn_limits limits;
    struct buf out;

    uint64_t asked[MANY];
    enum proto_type types[MANY];
    size_t n_asked, n_abandoned, n_finished, n_paused, n_resumed;
    bool keep;   /* each request is begun, as a job, and stays */
    bool answer; /* each request is begun, answered with a text and ended at once */
};

static void send_text(struct conn *c, uint64_t id, const char *text, size_t len)
{
    const struct proto_event e = {.type = PROTO_EV_TEXT, .id = id, .channel = "answer", .text = {(char *)text, len}};

    conn_send(c, &e);
}

static void on_request(void *ctx, struct conn *c, struct proto_request *r)
{
    struct fixture *g = ctx;

    assert_true(g->n_asked < MANY);
    g->types[g->n_asked] = r->type;
    g->asked[g->n_asked++] = r->id;
    if (g->keep) assert_int_equal(conn_begin_job(c, r->id, r->bytes), 0);
    if (!g->answer) return;
    assert_int_equal(conn_begin(c, r->id, r->bytes), 0);
    send_text(c, r->id, "yes", 3);
    conn_end(c, r->id);
}

static void on_pause(void *ctx, struct conn *c, bool pause)
{
    struct fixture *g = ctx;

    if (pause)
        g->n_paused++;
    else
        g->n_resumed++;
}

static void on_abandon(void *ctx, struct conn *c, uint64_t id)
{
    struct fixture *g = ctx;

    assert_true(conn_is_live(c, id));
    g->n_abandoned++;
}

static void on_finished(void *ctx, struct conn *c)
{
    struct fixture *g = ctx;

    g->n_finished++;
}

static int on_user(void *ctx, struct conn *c, const struct proto_text *name)
{
    if (strcmp(name->data, "nobody") == 0) return error_say(-EPERM, "you may not");
    return conn_move(c, 0x80000000, name->data);
}

static const struct conn_ops ops = {on_request, on_pause, on_abandon, on_finished, on_user};

static void open_conn(struct fixture *g, uint64_t uid_bytes)
{
    int fds[2], small = 16 << 10;

    const struct account_limits most = {
        .connections = 10, .uid_connections = 10, .bytes = 4 * uid_bytes, .uid_bytes = uid_bytes};

    assert_int_equal(accounts_new(&g->accounts, &most), 0);
    assert_int_equal(account_open(g->accounts, 1000, 0, &g->account), 0);
    assert_true(sd_event_new(&g->event) >= 0);
    assert_int_equal(conns_init(&g->conns, g->event, &g->limits, &ops, g), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    wire_init(&g->peer, fds[1]);
    assert_int_equal(conn_new(&g->conn, &g->conns, fds[0], 7, g->account), 0);
}

static int setup(void **state)
{
    struct fixture *g = calloc(1, sizeof *g);

    g->limits = conn_limits_default;
    g->limits.high = 64 << 10;
    g->limits.low = 16 << 10;
    g->limits.hard = 256 << 10;
    g->limits.requests = 100;
    g->limits.errors = 5;
    g->limits.jobs = 3;
    open_conn(g, 32 << 20);
    *state = g;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *g = *state;

    conn_free(g->conn);
    conns_fini(&g->conns);
    accounts_free(g->accounts);
    wire_fini(&g->peer);
    sd_event_unref(g->event);
    buf_fini(&g->out);
    free(g);
    return 0;
}

/* Until nothing happens any more. */
static void spin(struct fixture *g)
{
    int r, turns = 0;

    do {
        conns_flush(&g->conns);
        r = sd_event_run(g->event, 0);
        assert_true(++turns < 100000); /* it must come to rest */
    } while (r > 0);
    assert_int_equal(r, 0);
}

static void say(struct fixture *g)
{
    wire_write(&g->peer, &g->out);
    spin(g);
}

/* The socket takes less than what is sent: reading makes room for more. */
static bool next(struct fixture *g, struct proto_event *e)
{
    for (int i = 0; i < 10; i++) {
        if (wire_next(&g->peer, e)) return true;
        spin(g);
    }
    return false;
}

static void greet(struct fixture *g)
{
    struct proto_event e;

    put_hello(&g->out, PROTO_VERSION);
    say(g);
    assert_true(next(g, &e));
    assert_int_equal(e.type, PROTO_EV_HELLO);
    assert_int_equal(e.version, PROTO_VERSION);
    proto_event_fini(&e);
}

static void expect_error(struct fixture *g, uint64_t id, int code, const char *part)
{
    struct proto_event e;

    assert_true(next(g, &e));
    assert_int_equal(e.type, PROTO_EV_ERROR);
    assert_int_equal(e.id, id);
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.message.data, part));
    proto_event_fini(&e);
}

static void expect_text(struct fixture *g, uint64_t id)
{
    struct proto_event e;

    assert_true(next(g, &e));
    assert_int_equal(e.type, PROTO_EV_TEXT);
    assert_int_equal(e.id, id);
    proto_event_fini(&e);
}

static void expect_closed(struct fixture *g)
{
    struct proto_event e;

    assert_false(wire_next(&g->peer, &e));
    assert_true(g->peer.eof);
    assert_true(conn_is_closed(g->conn));
    assert_int_equal(g->n_finished, 1);
    assert_int_equal(account_bytes(g->account), 0);
}

static void expect_open(struct fixture *g)
{
    struct proto_event e;

    assert_false(wire_next(&g->peer, &e));
    assert_false(g->peer.eof);
    assert_false(conn_is_closed(g->conn));
    assert_int_equal(g->n_finished, 0);
}

static void hello_is_answered(void **state)
{
    struct fixture *g = *state;

    greet(g);
    expect_open(g);
    assert_int_equal(g->n_asked, 0);
}

static void nothing_is_said_before_hello(void **state)
{
    struct fixture *g = *state;

    spin(g);
    expect_open(g);
}

static void other_version_is_told_and_closed(void **state)
{
    struct fixture *g = *state;

    put_hello(&g->out, PROTO_VERSION + 98);
    put_request(&g->out, PROTO_STATUS, 1);
    say(g);
    expect_error(g, 0, EPROTO, "99");
    expect_closed(g);
    assert_int_equal(g->n_asked, 0);
}

static void request_before_hello_is_told_and_closed(void **state)
{
    struct fixture *g = *state;

    put_request(&g->out, PROTO_STATUS, 1);
    put_hello(&g->out, PROTO_VERSION);
    say(g);
    expect_error(g, 0, EPROTO, "hello");
    expect_closed(g);
}

static void second_hello_is_an_error_only(void **state)
{
    struct fixture *g = *state;

    greet(g);
    put_hello(&g->out, PROTO_VERSION);
    say(g);
    expect_error(g, 0, EINVAL, "already");
    put_hello(&g->out, PROTO_VERSION + 1);
    say(g);
    expect_error(g, 0, EPROTO, "");
    expect_open(g);
}

static void put_hello_of(struct buf *b, const char *user)
{
    const struct proto_request r = {
        .type = PROTO_HELLO, .version = PROTO_VERSION, .user = {(char *)user, strlen(user)}};

    assert_int_equal(proto_write_request(b, &r), 0);
}

/* The rest of the same input, and what the connection holds, belong to the user. */
static void hello_names_a_user(void **state)
{
    struct fixture *g = *state;
    struct account_info info;
    struct proto_event e;

    put_hello_of(&g->out, "ada");
    put_request(&g->out, PROTO_STATUS, 1);
    say(g);
    assert_true(next(g, &e));
    assert_int_equal(e.type, PROTO_EV_HELLO);
    proto_event_fini(&e);
    assert_int_equal(g->n_asked, 1);
    assert_int_equal(conn_uid(g->conn), 0x80000000);
    assert_int_equal(account_bytes(g->account), 0);
    assert_non_null(accounts_next(g->accounts, NULL, &info));
    assert_string_equal(info.name, "ada");
    assert_int_equal(info.connections, 1);
    assert_int_equal(info.counts.messages, 1);
    expect_open(g);
}

static void a_user_may_be_refused(void **state)
{
    struct fixture *g = *state;

    put_hello_of(&g->out, "nobody");
    put_request(&g->out, PROTO_STATUS, 1);
    say(g);
    expect_error(g, 0, EPERM, "you may not");
    expect_closed(g);
    assert_int_equal(g->n_asked, 0);
}

static void any_split_is_the_same_stream(void **state)
{
    struct fixture *g = *state;
    struct buf all = BUF_INIT;
    uint32_t x = 12345;

    g->answer = true;
    put_hello(&all, PROTO_VERSION);
    for (uint64_t id = 1; id <= 300; id++)
        put_request(&all, id % 3 ? PROTO_GENERATE : id % 2 ? PROTO_TOKENIZE : PROTO_STATUS, id);
    for (size_t at = 0; at < all.len;) {
        size_t n;

        x = x * 1664525u + 1013904223u;
        n = x >> 28 ? (x >> 20) % 97 + 1 : 1 + (x >> 16) % 4000;
        if (n > all.len - at) n = all.len - at;
        assert_int_equal(send(g->peer.fd, all.data + at, n, MSG_DONTWAIT), n);
        at += n;
        sd_event_run(g->event, 0);
    }
    spin(g);
    buf_fini(&all);
    assert_int_equal(g->n_asked, 300);
    for (size_t i = 0; i < 300; i++) assert_int_equal(g->asked[i], i + 1);
    {
        struct proto_event e;

        assert_true(wire_next(&g->peer, &e));
        assert_int_equal(e.type, PROTO_EV_HELLO);
        proto_event_fini(&e);
    }
    for (uint64_t id = 1; id <= 300; id++) expect_text(g, id);
    expect_open(g);
}

static void byte_by_byte(void **state)
{
    struct fixture *g = *state;
    struct proto_event e;

    put_hello(&g->out, PROTO_VERSION);
    put_request(&g->out, PROTO_TOKENIZE, 5);
    for (size_t i = 0; i < g->out.len; i++) {
        assert_int_equal(send(g->peer.fd, g->out.data + i, 1, 0), 1);
        spin(g);
    }
    assert_true(wire_next(&g->peer, &e));
    proto_event_fini(&e);
    assert_int_equal(g->n_asked, 1);
    assert_int_equal(g->asked[0], 5);
    assert_int_equal(g->types[0], PROTO_TOKENIZE);
}

static void oversized_length(struct fixture *g, uint32_t len)
{
    unsigned char head[4];

    frame_header(head, len);
    assert_int_equal(buf_append(&g->out, head, 4), 0);
    say(g);
    expect_error(g, 0, EMSGSIZE, "limit");
    expect_closed(g);
}

static void oversized_before_hello(void **state)
{
    oversized_length(*state, FRAME_MAX + 1);
}

static void oversized_after_hello(void **state)
{
    greet(*state);
    oversized_length(*state, UINT32_MAX);
}

static void requests_before_an_oversized_one_are_heard(void **state)
{
    struct fixture *g = *state;

    g->answer = true;
    greet(g);
    put_request(&g->out, PROTO_TOKENIZE, 3);
    assert_int_equal(buf_append(&g->out, "\xff\xff\xff\xff", 4), 0);
    say(g);
    expect_text(g, 3);
    expect_error(g, 0, EMSGSIZE, "limit");
    expect_closed(g);
}

static void garbage_is_told_and_closed(void **state)
{
    struct fixture *g = *state;

    greet(g);
    put_body(&g->out, "\xdf\xff\xff\xff\xff\xa1", 6); /* a map of 2^32-1 */
    put_request(&g->out, PROTO_STATUS, 1);
    say(g);
    expect_error(g, 0, EBADMSG, "");
    expect_closed(g);
    assert_int_equal(g->n_asked, 0);
}

static void garbage_before_hello_is_told_and_closed(void **state)
{
    struct fixture *g = *state;

    put_body(&g->out, "\xc1\xc1", 2);
    say(g);
    expect_error(g, 0, EBADMSG, "");
    expect_closed(g);
}

/* Memory that runs out in msgpack-c, before the id is known: who asked could not tell which request failed. */
static void no_memory_before_the_id_closes(void **state)
{
    struct fixture *g = *state;

    greet(g);
    unpack_fails = true;
    put_request(&g->out, PROTO_TOKENIZE, 5);
    say(g);
    expect_error(g, 0, ENOMEM, "memory");
    expect_closed(g);
}

static void no_memory_before_hello_closes(void **state)
{
    struct fixture *g = *state;

    unpack_fails = true;
    put_request(&g->out, PROTO_TOKENIZE, 5);
    say(g);
    expect_error(g, 0, ENOMEM, "memory");
    expect_closed(g);
}

/* When the id is known, the error has it, and the connection stays. */
static void no_memory_behind_the_id_is_told(void **state)
{
    struct fixture *g = *state;

    greet(g);
    text_fails = true;
    put_request(&g->out, PROTO_TOKENIZE, 5);
    say(g);
    expect_error(g, 5, ENOMEM, "memory");
    expect_open(g);
}

static void garbage_does_not_end_what_is_live(void **state)
{
    struct fixture *g = *state;

    greet(g);
    assert_int_equal(conn_begin(g->conn, 4, 10), 0);
    put_body(&g->out, "\xc1", 1);
    say(g);
    expect_error(g, 0, EBADMSG, "");
    send_text(g->conn, 4, "still", 5);
    expect_text(g, 4);
    assert_int_equal(g->n_abandoned, 0);
    conn_end(g->conn, 4);
    expect_closed(g);
}

static void wrong_key_is_told_and_goes_on(void **state)
{
    static const char body[] = "\x84\xa4type\xa8tokenize\xa2id\x07\xa4text\xa1x\xa4txet\x01";
    struct fixture *g = *state;

    greet(g);
    put_body(&g->out, body, sizeof body - 1);
    put_request(&g->out, PROTO_STATUS, 8);
    say(g);
    expect_error(g, 7, EINVAL, "txet");
    expect_open(g);
    assert_int_equal(g->n_asked, 1);
    assert_int_equal(g->asked[0], 8);
}

/* What a user has too many of waits at its connection, in order; nothing is refused, and other requests behind it wait
 * too. */
static void jobs_wait_for_each_other(void **state)
{
    struct fixture *g = *state;

    greet(g);
    g->keep = true;
    for (uint64_t id = 1; id <= 10; id++) put_request(&g->out, PROTO_TOKENIZE, id);
    say(g);
    assert_int_equal(g->n_asked, 3);
    conn_end(g->conn, 2);
    spin(g);
    assert_int_equal(g->n_asked, 4);
    assert_int_equal(g->asked[3], 4);
    conn_end(g->conn, 1);
    conn_end(g->conn, 3);
    conn_end(g->conn, 4);
    spin(g);
    assert_int_equal(g->n_asked, 7);
    conn_read_rest(g->conn, 1 << 20); /* when the daemon stops, what was sent is handled */
    assert_int_equal(g->n_asked, 10);
    for (size_t i = 0; i < 10; i++) assert_int_equal(g->asked[i], i + 1);
    expect_open(g);
}

static void a_waiting_job_ends_with_its_connection(void **state)
{
    struct fixture *g = *state;

    greet(g);
    g->keep = true;
    for (uint64_t id = 1; id <= 5; id++) put_request(&g->out, PROTO_SESSION_LIST, id);
    say(g);
    assert_int_equal(g->n_asked, 3);
    close(g->peer.fd);
    g->peer.fd = -1;
    spin(g);
    assert_true(conn_is_closed(g->conn));
    assert_int_equal(g->n_abandoned, 3);
    for (uint64_t id = 1; id <= 3; id++) conn_end(g->conn, id);
    spin(g);
    assert_int_equal(g->n_asked, 3);
    assert_int_equal(account_bytes(g->account), 0);
}

static void put_wrong(struct fixture *g, char id)
{
    char body[] = "\x83\xa4type\xa6status\xa2id\x07\xa4txet\x01";

    body[16] = id;
    put_body(&g->out, body, sizeof body - 1);
}

static void many_wrong_messages_end_the_connection(void **state)
{
    struct fixture *g = *state;

    greet(g);
    for (char id = 1; id <= 10; id++) put_wrong(g, id);
    put_request(&g->out, PROTO_STATUS, 11);
    say(g);
    for (uint64_t id = 1; id <= 5; id++) expect_error(g, id, EINVAL, "txet");
    expect_error(g, 0, EPROTO, "more than 5");
    expect_closed(g);
    assert_int_equal(g->n_asked, 0);
    assert_int_equal(account_counts(g->account)->errors, 6);
}

static void a_good_message_makes_up_for_a_wrong_one(void **state)
{
    struct fixture *g = *state;

    greet(g);
    for (char id = 1; id <= 50; id++) {
        put_wrong(g, id);
        put_request(&g->out, PROTO_STATUS, 100);
    }
    say(g);
    for (uint64_t id = 1; id <= 50; id++) expect_error(g, id, EINVAL, "txet");
    assert_int_equal(g->n_asked, 50);
    expect_open(g);
}

/* However much one peer has sent: after each wake-up the event loop looks at its other sources. */
static void a_wake_up_is_short(void **state)
{
    struct fixture *g = *state;
    int runs = 0;
    size_t most = 0;

    greet(g);
    for (uint64_t id = 1; id <= 4000; id++) put_request(&g->out, PROTO_CANCEL, id);
    wire_write(&g->peer, &g->out);
    for (size_t before = 0; g->n_asked < 4000; before = g->n_asked) {
        assert_true(sd_event_run(g->event, 0) >= 0);
        if (g->n_asked - before > most) most = g->n_asked - before;
        assert_true(++runs < 100000);
    }
    assert_in_range(most, 1, 1024);
}

/* Answers until the connection says that its reader is slow. */
static uint64_t fill(struct fixture *g)
{
    char text[1000];
    uint64_t n = 0;

    memset(text, 'a', sizeof text);
    while (!conn_paused(g->conn)) {
        send_text(g->conn, 1, text, sizeof text);
        n++;
        assert_true(n < 1000);
    }
    return n;
}

static void slow_reader_pauses_and_goes_on(void **state)
{
    struct fixture *g = *state;
    struct proto_event e;
    uint64_t n, got = 0;

    greet(g);
    assert_int_equal(conn_begin(g->conn, 1, 0), 0);
    n = fill(g);
    assert_true(n * 1000 > g->limits.high);
    assert_int_equal(g->n_paused, 1);
    spin(g);
    assert_int_equal(g->n_resumed, 0);
    while (got < n) {
        while (wire_next(&g->peer, &e)) {
            assert_int_equal(e.text.len, 1000);
            proto_event_fini(&e);
            got++;
        }
        spin(g);
    }
    assert_int_equal(g->n_resumed, 1);
    assert_int_equal(g->n_paused, 1);
    assert_true(conn_flushed(g->conn));
    assert_false(conn_paused(g->conn));
}

static void slow_reader_is_not_listened_to(void **state)
{
    struct fixture *g = *state;
    struct proto_event e;

    greet(g);
    assert_int_equal(conn_begin(g->conn, 1, 0), 0);
    fill(g);
    for (uint64_t id = 2; id < 50; id++) put_request(&g->out, PROTO_STATUS, id);
    say(g);
    assert_int_equal(g->n_asked, 0);
    while (g->n_asked < 48) { /* it reads, and is heard, without a byte more of its own */
        while (wire_next(&g->peer, &e)) proto_event_fini(&e);
        spin(g);
    }
    assert_int_equal(g->asked[47], 49);
}

/* The pause comes in the middle of one read: what was read already waits too, and is not lost. */
static void flood_of_requests_is_served_as_it_is_read(void **state)
{
    struct fixture *g = *state;
    struct proto_event e;
    uint64_t got = 0, sent = 0;
    char text[2000];

    greet(g);
    g->answer = true;
    memset(text, 'b', sizeof text);
    for (int turn = 0; got < 3000; turn++) {
        assert_true(turn < 10000);
        while (sent < 3000 && g->out.len < 8000) put_request(&g->out, PROTO_TOKENIZE, ++sent);
        if (g->out.len) {
            ssize_t n = send(g->peer.fd, g->out.data, g->out.len, MSG_DONTWAIT);

            if (n > 0) buf_consume(&g->out, (size_t)n);
        }
        spin(g);
        if (turn % 40 && sent < 3000) continue; /* a reader that takes long breaks */
        while (wire_next(&g->peer, &e)) {
            assert_int_equal(e.id, ++got);
            proto_event_fini(&e);
        }
    }
    assert_true(g->n_paused > 0);
    assert_int_equal(g->n_paused, g->n_resumed);
    expect_open(g);
}

static void hard_limit_drops(void **state)
{
    struct fixture *g = *state;
    char text[10000];
    size_t n = 0;

    greet(g);
    memset(text, 'c', sizeof text);
    assert_int_equal(conn_begin(g->conn, 1, 0), 0);
    assert_int_equal(conn_begin(g->conn, 2, 0), 0);
    while (!conn_is_closed(g->conn)) {
        send_text(g->conn, 1, text, sizeof text);
        assert_true(++n < 100);
    }
    assert_true(n * sizeof text > g->limits.hard);
    assert_int_equal(g->n_abandoned, 2);
    assert_int_equal(g->n_paused, 1);
    assert_int_equal(g->n_resumed, 1); /* else its sequences would stay paused for ever */
    assert_int_equal(g->n_finished, 0);
    conn_end(g->conn, 1);
    assert_int_equal(g->n_finished, 0);
    conn_end(g->conn, 2);
    assert_int_equal(g->n_finished, 1);
    assert_int_equal(account_bytes(g->account), 0);
}

static void one_large_event_passes(void **state)
{
    struct fixture *g = *state;
    size_t len = 3u << 20;
    char *text = malloc(len);
    struct proto_event e;
    bool done = false;

    greet(g);
    memset(text, 'd', len);
    send_text(g->conn, 1, text, len);
    for (int turn = 0; !done && turn < 10000; turn++) {
        spin(g);
        if (!wire_next(&g->peer, &e)) continue;
        assert_int_equal(e.text.len, len);
        assert_memory_equal(e.text.data, text, len);
        proto_event_fini(&e);
        done = true;
    }
    free(text);
    assert_true(done);
    expect_open(g);
    assert_true(account_bytes(g->account) <= 64 << 10); /* no more of it is kept */
}

static void event_over_the_limits_becomes_an_error(void **state)
{
    struct fixture *g = *state;
    struct proto_event e = {.type = PROTO_EV_TOKENS, .id = 3, .tokens.n = PROTO_ELEMS_MAX + 1};

    greet(g);
    e.tokens.ids = calloc(e.tokens.n, sizeof *e.tokens.ids);
    conn_send(g->conn, &e);
    free(e.tokens.ids);
    expect_error(g, 3, EMSGSIZE, "limit");
    expect_open(g);
}

/* It is the error of that answer, and the others go on. */
static void error_stands_for_its_answer(void **state)
{
    struct fixture *g = *state;
    struct proto_event text = {.type = PROTO_EV_TEXT, .id = 3, .index = 5, .tokens.n = PROTO_ELEMS_MAX + 1};
    struct proto_event done = {.type = PROTO_EV_DONE, .id = 3, .index = 2, .more = true}, e;

    greet(g);
    text.tokens.ids = calloc(text.tokens.n, sizeof *text.tokens.ids);
    conn_send(g->conn, &text);
    free(text.tokens.ids);
    assert_true(next(g, &e));
    assert_int_equal(e.type, PROTO_EV_ERROR);
    assert_int_equal(e.code, EMSGSIZE);
    assert_int_equal(e.index, 5);
    assert_true(e.more);
    proto_event_fini(&e);
    done.session.len = FRAME_MAX + 1;
    done.session.data = calloc(done.session.len, 1);
    for (int last = 0; last < 2; last++) {
        done.more = !last;
        conn_send(g->conn, &done);
        assert_true(next(g, &e));
        assert_int_equal(e.type, PROTO_EV_ERROR);
        assert_int_equal(e.index, 2);
        assert_int_equal(e.more, !last);
        proto_event_fini(&e);
    }
    free(done.session.data);
    expect_open(g);
}

static void half_close_is_still_answered(void **state)
{
    struct fixture *g = *state;

    greet(g);
    assert_int_equal(conn_begin(g->conn, 1, 0), 0);
    assert_int_equal(conn_begin(g->conn, 2, 0), 0);
    shutdown(g->peer.fd, SHUT_WR);
    spin(g);
    assert_int_equal(g->n_abandoned, 0);
    send_text(g->conn, 1, "a", 1);
    conn_end(g->conn, 1);
    expect_text(g, 1);
    expect_open(g);
    send_text(g->conn, 2, "b", 1);
    conn_end(g->conn, 2);
    expect_text(g, 2);
    expect_closed(g);
}

static void half_close_with_nothing_live_closes(void **state)
{
    struct fixture *g = *state;

    greet(g);
    shutdown(g->peer.fd, SHUT_WR);
    spin(g);
    expect_closed(g);
}

static void half_close_in_a_message_closes(void **state)
{
    struct fixture *g = *state;

    greet(g);
    assert_int_equal(buf_append(&g->out, "\x10\0\0\0par", 7), 0);
    wire_write(&g->peer, &g->out);
    shutdown(g->peer.fd, SHUT_WR);
    spin(g);
    expect_closed(g);
}

static void close_after_half_close_abandons(void **state)
{
    struct fixture *g = *state;

    greet(g);
    assert_int_equal(conn_begin(g->conn, 1, 0), 0);
    shutdown(g->peer.fd, SHUT_WR);
    spin(g);
    close(g->peer.fd);
    g->peer.fd = -1;
    spin(g);
    assert_int_equal(g->n_abandoned, 1);
}

static void close_abandons_and_waits_for_the_end(void **state)
{
    struct fixture *g = *state;

    greet(g);
    assert_int_equal(conn_begin(g->conn, 1, 100), 0);
    assert_int_equal(conn_begin(g->conn, 2, 50), 0);
    close(g->peer.fd);
    g->peer.fd = -1;
    spin(g);
    assert_true(conn_is_closed(g->conn));
    assert_int_equal(g->n_abandoned, 2);
    assert_int_equal(g->n_finished, 0);
    assert_int_equal(account_bytes(g->account), 2 * 1024 + 150); /* the engine still holds them */
    send_text(g->conn, 1, "into the void", 13);
    conn_end(g->conn, 1);
    conn_end(g->conn, 1);
    assert_int_equal(account_bytes(g->account), 1024 + 50);
    conn_end(g->conn, 2);
    assert_int_equal(g->n_finished, 1);
    assert_int_equal(account_bytes(g->account), 0);
}

static void close_is_seen_while_the_reader_is_slow(void **state)
{
    struct fixture *g = *state;

    greet(g);
    assert_int_equal(conn_begin(g->conn, 1, 0), 0);
    fill(g);
    spin(g);
    close(g->peer.fd);
    g->peer.fd = -1;
    spin(g);
    assert_int_equal(g->n_abandoned, 1);
    assert_int_equal(g->n_resumed, 1);
}

static void live_ids_are_unique_and_limited(void **state)
{
    struct fixture *g = *state;

    greet(g);
    for (uint64_t id = 1; id <= 100; id++) assert_int_equal(conn_begin(g->conn, id * 3, 1), 0);
    assert_int_equal(conn_begin(g->conn, 9, 1), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "9"));
    assert_int_equal(conn_begin(g->conn, 1, 1), -EBUSY);
    assert_int_equal(conn_live(g->conn), 100);
    conn_end(g->conn, 9);
    assert_int_equal(conn_begin(g->conn, 9, 1), 0);
    assert_int_equal(conn_begin(g->conn, 9, 1), -EINVAL);
    assert_true(conn_is_live(g->conn, 300));
    assert_false(conn_is_live(g->conn, 4));
}

static void requests_are_charged(void **state)
{
    struct fixture *g = *state;

    greet(g);
    assert_int_equal(conn_begin(g->conn, 1, 30 << 20), 0);
    assert_int_equal(conn_begin(g->conn, 2, 3 << 20), -EDQUOT);
    assert_int_equal(conn_live(g->conn), 1);
    conn_end(g->conn, 1);
    assert_int_equal(conn_begin(g->conn, 2, 3 << 20), 0);
}

static void unfinished_input_is_charged(void **state)
{
    struct fixture *g = *state;
    static char piece[32 << 10];
    unsigned char head[4];

    greet(g);
    frame_header(head, 60u << 20);
    assert_int_equal(buf_append(&g->out, head, 4), 0);
    say(g);
    for (int i = 0; i < 3000 && !conn_is_closed(g->conn); i++) {
        if (send(g->peer.fd, piece, sizeof piece, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
        spin(g);
        assert_true(account_bytes(g->account) <= 32 << 20);
    }
    expect_error(g, 0, EDQUOT, "the limit is now");
    expect_closed(g);
}

static void finish_waits_for_output_and_answers(void **state)
{
    struct fixture *g = *state;
    struct proto_event e;
    size_t got = 0, n;

    greet(g);
    assert_int_equal(conn_begin(g->conn, 1, 0), 0);
    n = fill(g);
    conn_finish(g->conn);
    put_request(&g->out, PROTO_STATUS, 2);
    say(g);
    conn_end(g->conn, 1);
    assert_int_equal(g->n_finished, 0);
    for (int turn = 0; got < n && turn < 1000; turn++) {
        while (wire_next(&g->peer, &e)) {
            proto_event_fini(&e);
            got++;
        }
        spin(g);
    }
    assert_int_equal(got, n);
    expect_closed(g);
    assert_int_equal(g->n_asked, 0);
}

/* Else the drop would wait for an hour. */
static void a_drop_does_not_wait_for_unread_descriptors(void **state)
{
    struct fixture *g = *state;
    int far;
    linger_send(g->peer.fd, linger_make(&far));
    conn_drop(g->conn);
    assert_true(conn_is_closed(g->conn));
    expect_closed(g);
    close(far);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(hello_is_answered),
        T(a_drop_does_not_wait_for_unread_descriptors),
        T(nothing_is_said_before_hello),
        T(other_version_is_told_and_closed),
        T(request_before_hello_is_told_and_closed),
        T(second_hello_is_an_error_only),
        T(hello_names_a_user),
        T(a_user_may_be_refused),
        T(any_split_is_the_same_stream),
        T(byte_by_byte),
        T(oversized_before_hello),
        T(oversized_after_hello),
        T(requests_before_an_oversized_one_are_heard),
        T(garbage_is_told_and_closed),
        T(garbage_before_hello_is_told_and_closed),
        T(no_memory_before_the_id_closes),
        T(no_memory_before_hello_closes),
        T(no_memory_behind_the_id_is_told),
        T(garbage_does_not_end_what_is_live),
        T(wrong_key_is_told_and_goes_on),
        T(jobs_wait_for_each_other),
        T(a_waiting_job_ends_with_its_connection),
        T(many_wrong_messages_end_the_connection),
        T(a_good_message_makes_up_for_a_wrong_one),
        T(a_wake_up_is_short),
        T(slow_reader_pauses_and_goes_on),
        T(slow_reader_is_not_listened_to),
        T(flood_of_requests_is_served_as_it_is_read),
        T(hard_limit_drops),
        T(one_large_event_passes),
        T(event_over_the_limits_becomes_an_error),
        T(error_stands_for_its_answer),
        T(half_close_is_still_answered),
        T(half_close_with_nothing_live_closes),
        T(half_close_in_a_message_closes),
        T(close_after_half_close_abandons),
        T(close_abandons_and_waits_for_the_end),
        T(close_is_seen_while_the_reader_is_slow),
        T(live_ids_are_unique_and_limited),
        T(requests_are_charged),
        T(unfinished_input_is_charged),
        T(finish_waits_for_output_and_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
