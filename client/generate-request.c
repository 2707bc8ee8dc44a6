/* SPDX-License-Identifier: MIT */
#include "client/constraint-read.h"
#include "client/generate.h"
#include "client/tools-read.h"
#include "libcommon/error.h"
#include "libcommon/random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int generate_uuid(struct proto_generate *g)
{
    unsigned char b[16];
    int r = random_fill(b, sizeof(b));
    if (r < 0) return error_in(r, "cannot get random numbers");
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    snprintf(g->uuid, sizeof(g->uuid), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return 0;
}

void generate_take(struct proto_text *t, struct buf *input)
{
    free(t->data);
    t->data = buf_steal(input, &t->len);
}

static int generate_messages(struct proto_generate *g, const struct options *o, struct input *input)
{
    struct proto_message *m;
    int r = 0;
    g->messages = calloc(2, sizeof(*g->messages));
    if (!g->messages) return -ENOMEM;
    if (o->system && *o->system) {
        m = &g->messages[g->n_messages++];
        r = proto_text_set(&m->role, "system", 6);
        if (r == 0) r = proto_text_set(&m->content, o->system, strlen(o->system));
    }
    m = &g->messages[g->n_messages++];
    if (r == 0) r = proto_text_set(&m->role, "user", 4);
    if (r < 0) return r;
    generate_take(&m->content, &input->text);
    m->media = input->media;
    m->n_media = input->n_media;
    input->media = NULL;
    input->n_media = 0;
    return r;
}

static int generate_biases(struct proto_generate *g, const struct options *o)
{
    int r = 0;
    if (!o->biases.n) return 0;
    g->biases = calloc(o->biases.n, sizeof(*g->biases));
    if (!g->biases) return -ENOMEM;
    for (; r == 0 && g->n_biases < o->biases.n; g->n_biases++) {
        const struct proto_bias *from = &o->biases.all[g->n_biases];
        struct proto_bias *to = &g->biases[g->n_biases];
        to->id = from->id;
        to->bias = from->bias;
        if (from->text.len) r = proto_text_set(&to->text, from->text.data, from->text.len);
    }
    return r;
}

int generate_request(struct proto_request *r, const struct options *o, struct input *input)
{
    struct proto_generate *g = &r->gen;
    *r = (struct proto_request){.type = o->warm ? PROTO_WARM : PROTO_GENERATE, .id = GENERATE_ID};
    proto_generate_init(g);
    g->raw = o->raw;
    g->special = o->special;
    g->continue_last = o->continue_last;
    g->wait = o->wait;
    g->context = o->context;
    g->priority = o->priority;
    r->speculate = o->speculate;
    g->max_tokens = o->max_tokens;
    if (!o->warm) g->n = (uint32_t)o->n;
    g->detach = o->detach;
    g->ignore_eos = o->ignore_eos;
    g->logprobs = o->logprobs;
    g->sampling = o->sampling;
    g->timeout_ms = o->timeout_ms;
    int e = generate_uuid(g);
    if (e < 0) return e;
    if (o->session) e = proto_text_set(&g->session, o->session, strlen(o->session));
    if (e == 0 && o->adapter) e = proto_text_set(&r->adapter, o->adapter, strlen(o->adapter));
    if (e == 0 && o->fork) e = proto_text_set(&g->fork, o->fork, strlen(o->fork));
    for (size_t i = 0; e == 0 && i < o->stop.n; i++) {
        e = proto_text_set(&g->stop[i], o->stop.texts[i], strlen(o->stop.texts[i]));
        if (e == 0) g->n_stop++;
    }
    if (e == 0) e = generate_biases(g, o);
    if (e == 0) e = constraint_read(r, o);
    if (e == 0) e = tools_read(r, o);
    if (e == 0 && o->raw) generate_take(&g->prompt, &input->text);
    if (e == 0 && !o->raw) e = generate_messages(g, o, input);
    return e == -ENOMEM ? error_say(e, "no memory for the request") : e;
}
