/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/fuzz-request.h"
#include "libcommon/proto.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const char *const words[] = {"a",      "b",        "the house",  "once upon a time there was a little sea",
                                    "",       "\xc3\xa9", "{\"a\": 1}", "<|im_start|>user\n",
                                    "system", "user",     "assistant",  "tool"};
enum { WORDS = sizeof(words) / sizeof(*words) };

static struct proto_text word(unsigned i)
{
    const char *s = words[i % WORDS];
    return (struct proto_text){(char *)s, strlen(s)};
}

/* A word, or bytes of the input. */
static struct proto_text some_text(struct fuzz_input *in)
{
    unsigned how = fuzz_byte(in);
    size_t n = how & 63;
    if (how < 128) return word(how);
    const char *s = fuzz_bytes(in, &n);
    return n ? (struct proto_text){(char *)s, n} : word(0);
}

static struct proto_text session_name(unsigned how)
{
    return how % 4 ? word(how % 3) : (struct proto_text){(char *)"long name of a session", 22};
}

static void sampling(struct proto_sampling *s, unsigned how, struct fuzz_input *in)
{
    if (how & 1) s->temperature = (float)fuzz_byte(in) / 64;
    if (how & 2) s->top_k = fuzz_byte(in);
    if (how & 4) s->top_p = (float)fuzz_byte(in) / 255;
    if (how & 8) s->min_p = (float)fuzz_byte(in) / 255;
    if (how & 16) s->repeat_penalty = (float)fuzz_byte(in) / 64, s->repeat_last_n = fuzz_byte(in);
    if (how & 32) s->mirostat = (float)fuzz_byte(in) / 16, s->mirostat_eta = 0.1f;
    if (how & 64) s->typical_p = (float)fuzz_byte(in) / 255;
    if (how & 128) s->frequency_penalty = 1, s->presence_penalty = -1;
    s->seed = how;
}

static void constraint(struct proto_constraint *c, struct fuzz_input *in, struct proto_text choices[2])
{
    static const char *const texts[] = {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}",
                                        "root ::= \"a\" [b-d]+ | \"x\" root", "[a-c]{2,5}|x*"};
    unsigned how = fuzz_byte(in);
    c->type = (enum proto_constraint_type)(how % 5);
    c->on_limit = (enum proto_on_limit)(how / 5 % 3);
    if (c->type == PROTO_CONSTRAINT_NONE) return;
    if (c->type == PROTO_CONSTRAINT_CHOICE) {
        choices[0] = word(0), choices[1] = word(2);
        c->choices = choices;
        c->n_choices = 2;
    } else if (how & 128) {
        c->text = some_text(in);
    } else {
        c->text = (struct proto_text){(char *)texts[c->type - 1], strlen(texts[c->type - 1])};
    }
}

struct parts {
    struct proto_message messages[4];
    struct proto_text choices[2], texts[4], question;
    struct proto_bias bias[1];
    int32_t ids[8];
};

static void generate(struct proto_request *r, struct parts *p, struct fuzz_input *in)
{
    struct proto_generate *g = &r->gen;
    unsigned how = fuzz_byte(in), more = fuzz_byte(in), rare = fuzz_byte(in);
    g->max_tokens = how % 16;
    g->raw = how & 16;
    g->special = how & 32;
    if (how & 64) g->session = session_name(more), g->wait = more & 8;
    g->n = how & 128 ? 1 + more % 3 : 0;
    g->detach = more & 16;
    g->ignore_eos = more & 32;
    g->logprobs = more & 64;
    if (g->logprobs) g->top_logprobs = more % 5;
    g->context = (enum proto_context)(rare % 4);
    g->priority = (enum proto_priority)(rare / 4 % 4);
    if (rare & 16) sampling(&g->sampling, fuzz_byte(in), in);
    if (rare & 32) constraint(&r->constraint, in, p->choices);
    if (rare & 64) g->timeout_ms = 1 + fuzz_byte(in), g->salt = word(how);
    if (rare & 128) g->biases = p->bias, g->n_biases = 1, p->bias[0] = (struct proto_bias){.id = 97, .bias = 5};
    if (r->type == PROTO_INFILL) {
        g->infill = (struct proto_infill){some_text(in), some_text(in), -1};
    } else if (g->raw) {
        g->prompt = some_text(in);
    } else {
        g->messages = p->messages;
        g->n_messages = 1 + more % 4;
        for (size_t i = 0; i < g->n_messages; i++)
            p->messages[i] = (struct proto_message){.role = word(8 + fuzz_byte(in) % 3), .content = some_text(in)};
    }
}

static void embed(struct proto_request *r, struct parts *p, struct fuzz_input *in)
{
    unsigned how = fuzz_byte(in);
    r->embed.n_texts = how % 5;
    r->embed.texts = p->texts;
    for (size_t i = 0; i < r->embed.n_texts; i++) p->texts[i] = some_text(in);
    if (r->type == PROTO_RANK) {
        p->question = some_text(in);
        r->embed.question = &p->question;
        return;
    }
    r->embed.pooling = (enum proto_pooling)(how / 8 % 4);
    r->embed.dims = how & 32 ? fuzz_byte(in) : 0;
    r->embed.unscaled = how & 64;
}

static void other(struct proto_request *r, struct parts *p, struct fuzz_input *in)
{
    unsigned how = fuzz_byte(in);
    r->special = how & 1;
    r->text = some_text(in);
    r->ids = p->ids;
    r->n_ids = how % 9;
    for (size_t i = 0; i < r->n_ids && i < 8; i++) p->ids[i] = (int32_t)fuzz_short(in);
    if (r->n_ids > 8) r->n_ids = 8;
    if (r->type == PROTO_SESSION_LIST) {
        r->limit = how % 5;
        return;
    }
    r->name = session_name(how);
    r->to = session_name(how >> 4);
}

void fuzz_request(struct buf *out, struct fuzz_input *in)
{
    static struct parts p;
    struct proto_request r = {0};
    unsigned type = fuzz_byte(in);
    r.id = 1 + type / 32;
    r.type = (enum proto_type)(PROTO_GENERATE + type % 17);
    if (type % 32 > 16 || r.type > PROTO_RANK) r.type = PROTO_GENERATE;
    if (r.type == PROTO_STOP && fuzz_byte(in) < 250) r.type = PROTO_STATUS;
    proto_generate_init(&r.gen);
    switch (r.type) {
    case PROTO_GENERATE:
    case PROTO_WARM:
    case PROTO_INFILL:
        generate(&r, &p, in);
        break;
    case PROTO_EMBED:
    case PROTO_RANK:
        embed(&r, &p, in);
        break;
    default:
        other(&r, &p, in);
    }
    if (proto_write_request(out, &r) < 0) buf_clear(out);
}

void fuzz_hello(const struct fuzz_hello *h, struct fuzz_input *in)
{
    struct buf b = BUF_INIT;
    struct proto_request r = {.type = PROTO_HELLO, .version = PROTO_VERSION};
    if (h->how & 1) r.user = word(fuzz_byte(in));
    if (h->how & 2) r.version = fuzz_byte(in);
    FUZZ_CHECK(proto_write_request(&b, &r) == 0);
    send(h->fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    buf_fini(&b);
}
