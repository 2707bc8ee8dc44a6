/* SPDX-License-Identifier: MIT */
#include "tests/io/wire.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

void wire_init(struct wire *w, int fd)
{
    *w = (struct wire){.fd = fd};
}

void wire_fini(struct wire *w)
{
    if (w->fd >= 0) close(w->fd);
    frame_decoder_fini(&w->in);
}

void put_hello(struct buf *b, uint32_t version)
{
    const struct proto_request r = {.type = PROTO_HELLO, .version = version};

    assert_int_equal(proto_write_request(b, &r), 0);
}

void put_request(struct buf *b, enum proto_type type, uint64_t id)
{
    struct proto_message m = {.role = {(char *)"user", 4}, .content = {(char *)"x", 1}};
    struct proto_request r = {.type = type, .id = id};

    proto_generate_init(&r.gen);
    r.gen.messages = &m;
    r.gen.n_messages = 1;
    r.text = (struct proto_text){(char *)"x", 1};
    assert_int_equal(proto_write_request(b, &r), 0);
}

void put_body(struct buf *b, const void *body, size_t len)
{
    unsigned char head[4];

    frame_header(head, (uint32_t)len);
    assert_int_equal(buf_append(b, head, 4), 0);
    assert_int_equal(buf_append(b, body, len), 0);
}

void wire_write(struct wire *w, struct buf *b)
{
    assert_int_equal(send(w->fd, b->data, b->len, MSG_NOSIGNAL | MSG_DONTWAIT), b->len);
    buf_clear(b);
}

bool wire_next(struct wire *w, struct proto_event *e)
{
    char piece[65536];
    const char *body;
    size_t len;
    int r;

    while ((r = frame_peek(&w->in, &body, &len)) == 0 && !w->eof) {
        ssize_t n = recv(w->fd, piece, sizeof piece, MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN) return false;
        if (n <= 0) {
            assert_true(n == 0 || errno == ECONNRESET);
            w->eof = true;
        } else {
            assert_int_equal(frame_feed(&w->in, piece, (size_t)n), 0);
        }
    }
    assert_true(r >= 0);
    if (r == 0) return false;
    assert_int_equal(proto_read_event(e, body, len), 0);
    frame_pop(&w->in);
    return true;
}
