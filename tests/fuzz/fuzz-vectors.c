/* SPDX-License-Identifier: MIT */
/*
 * What a daemon answers to hob embed and hob rank: all vectors come in order and with one dimension, or the request
 * fails. Byte 0: what is asked. Then a script of events, whose bytes the end of the script may change.
 */
#include "client/embed/embed-call.h"
#include "client/exit-status.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz-edit.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {
    "hex:0200c0000402000102400002000180",       /* three texts, two and then one; done */
    "hex:0200c00004020004a00201",               /* an error */
    "hex:0900c0020401000380",                   /* scores */
    "hex:0200c000040200ff400002000180ff210004", /* changed bytes */
    "hex:0200c8000402000102400102000180",       /* another version */
    NULL,
};

enum { TEXTS_MAX = 8, VALUES_MAX = 1024, SENT_MAX = 65536 };

static volatile float taken; /* every value is read */

struct seen {
    size_t n, texts;
    uint32_t dim;
};

/* @how: bits 0-1 the id, 2-4 the first text. */
static void vectors(struct buf *out, enum proto_event_type type, unsigned how, struct fuzz_input *in)
{
    static float values[VALUES_MAX];
    static uint32_t tokens[VALUES_MAX];
    unsigned first = fuzz_byte(in), n = fuzz_byte(in), dim = type == PROTO_EV_SCORES ? 1 : fuzz_byte(in);
    struct proto_event e = {.type = type, .id = how % 4 ? how % 4 : 1};
    n = n ? n : 1;
    dim = dim ? dim : 1;
    if (n * dim > VALUES_MAX) dim = VALUES_MAX / n;
    for (unsigned i = 0; i < n * dim; i++) values[i] = (float)i / 16;
    e.vectors =
        (struct proto_vectors){.first = first, .n = n, .dim = dim, .values = values, .tokens = tokens, .cached = n / 2};
    if (type == PROTO_EV_SCORES) e.vectors.method = how & 32 ? "rank" : "cosine";
    FUZZ_CHECK(proto_write_event(out, &e) == 0);
}

static void event(struct buf *out, unsigned op, struct fuzz_input *in)
{
    struct proto_event e = {.id = op % 4 ? op % 4 : 1, .miss_at = -1, .seed = -1};
    switch (op >> 5) {
    case 0:
    case 1:
    case 2:
        vectors(out, op >> 5 == 2 ? PROTO_EV_SCORES : PROTO_EV_EMBEDDINGS, op, in);
        return;
    case 3: /* not of this request's kind */
        e.type = PROTO_EV_TOKENS;
        break;
    case 4:
        e.type = PROTO_EV_DONE;
        e.usage_prompt = fuzz_byte(in);
        break;
    case 5:
        e.type = PROTO_EV_ERROR;
        e.id = op % 4;
        e.code = (int)fuzz_byte(in);
        if (op & 8) e.message = (struct proto_text){(char *)"no", 2};
        break;
    default:
        e.type = PROTO_EV_HELLO;
        e.version = op & 8 ? fuzz_byte(in) : PROTO_VERSION;
    }
    FUZZ_CHECK(proto_write_event(out, &e) == 0);
}

static void script(struct buf *out, struct fuzz_input *in)
{
    while (in->n && out->len < SENT_MAX / 2) {
        unsigned op = fuzz_byte(in);
        if (op == 255) break;
        event(out, op, in);
    }
    if (out->len) fuzz_edit(out, in);
}

static int piece(void *ctx, const struct proto_vectors *v)
{
    struct seen *s = ctx;
    FUZZ_CHECK(v->first == s->n && v->n > 0 && v->first + v->n <= s->texts);
    FUZZ_CHECK(v->dim > 0 && (!s->dim || s->dim == v->dim));
    for (size_t i = 0; i < (size_t)v->n * v->dim; i++) taken = v->values[i];
    for (size_t i = 0; i < v->n; i++) taken = (float)v->tokens[i];
    s->dim = v->dim;
    s->n += v->n;
    return 0;
}

static void ask(struct embed_client *c, unsigned how)
{
    static struct proto_text texts[TEXTS_MAX], question = {(char *)"q", 1};
    struct embed_ask a = {.texts = texts, .n = 1 + how % TEXTS_MAX};
    if (!texts[0].data)
        for (int i = 0; i < TEXTS_MAX; i++) texts[i] = (struct proto_text){(char *)"text", 4};
    if (how & 8) a.question = &question;
    if (how & 16) {
        struct seen s = {.texts = a.n};
        int status = embed_stream(c, &a, piece, &s);
        FUZZ_CHECK(status != 0 || s.n == a.n);
    } else {
        struct embed_vectors v;
        int status = embed_texts(c, &a, &v);
        FUZZ_CHECK(status == 0 ? v.n == a.n && v.dim > 0 : !v.values);
        for (size_t i = 0; i < v.n * v.dim; i++) taken = v.values[i];
        embed_vectors_fini(&v);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct options o = {.timeout_ms = -1};
    struct fuzz_input in = {data, size};
    struct embed_client c;
    struct buf sent = BUF_INIT;
    int fds[2];
    fuzz_quiet();
    setenv("HOB_SOCKET", "/nonexistent/hob.sock", 1); /* there is no other daemon */
    unsigned how = fuzz_byte(&in);
    script(&sent, &in);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    if (sent.len && sent.len < SENT_MAX)
        FUZZ_CHECK(send(fds[1], sent.data, sent.len, MSG_DONTWAIT) == (ssize_t)sent.len);
    buf_fini(&sent);
    shutdown(fds[1], SHUT_WR); /* it still takes the request */
    embed_client_init(&c, &o);
    connection_open(&c.c, fds[0]);
    c.c.needs = PROTO_FEATURE_EMBED;
    ask(&c, how);
    embed_client_fini(&c);
    close(fds[1]);
    return 0;
}
