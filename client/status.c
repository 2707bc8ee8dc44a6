/* SPDX-License-Identifier: MIT */
#include "client/status.h"
#include "client/exits.h"
#include "client/interrupt.h"
#include "client/json.h"
#include "client/link.h"
#include "client/output.h"
#include "client/places.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_ID      1
#define STATUS_WAIT_MS 10000 /* the daemon's main thread answers, which waits for nothing */

struct status_view {
    struct buf *out;
    int status;
};

static int status_value(struct buf *out, const struct json_item *item)
{
    size_t n = item->key ? strlen(item->key) : 0, i;
    char size[32], *end;
    int r = 0;

    if (item->kind == JSON_SCALAR && n > 6 && strcmp(item->key + n - 6, "_bytes") == 0) {
        unsigned long long v = strtoull(item->text, &end, 10);

        if (end != item->text && !*end && *item->text != '-') return buf_puts(out, format_size(size, v));
    }
    /* A value may hold what somebody named; it stays on its line. */
    for (i = 0; r == 0 && item->text[i]; i++) {
        char c = item->text[i];

        r = buf_append(out, (unsigned char)c < ' ' || c == 0x7f ? "?" : &c, 1);
    }
    return r;
}

static int status_item(void *ctx, const struct json_item *item)
{
    struct status_view *v = ctx;
    unsigned indent = item->depth > 0 ? item->depth - 1 : 0;
    int r;

    if (item->depth == 0) {
        if (item->kind == JSON_CLOSE || (item->kind == JSON_OPEN && *item->text == '{')) return 0;
        return error_say(-EBADMSG, "the daemon's status is not an object");
    }
    if (item->kind == JSON_CLOSE) return 0;
    if (item->depth == 1 && item->kind == JSON_STRING && item->key && strcmp(item->key, "state") == 0) {
        bool soon = strcmp(item->text, "loading") == 0 || strcmp(item->text, "stopping") == 0;

        v->status = strcmp(item->text, "ready") == 0 ? EXITS_ANSWERED : soon ? EXITS_BUSY : EXITS_FAILED;
    }
    if (item->key)
        r = buf_printf(v->out, "%*s%s:%s", (int)(2 * indent), "", item->key, item->kind == JSON_OPEN ? "" : " ");
    else
        r = buf_printf(v->out, "%*s-%s", (int)(2 * indent), "", item->kind == JSON_OPEN ? "" : " ");
    if (r == 0 && item->kind != JSON_OPEN) r = status_value(v->out, item);
    return r == 0 ? buf_puts(v->out, "\n") : r;
}

int status_format(struct buf *out, const char *json, size_t len, int *status)
{
    struct status_view v = {.out = out, .status = EXITS_FAILED};
    int r = json_walk(json, len, status_item, &v);

    if (r == -EBADMSG) return error_in(r, "the daemon's status");
    *status = v.status;
    return r;
}

/* Connect and send one request without arguments. The exit status when that fails, else 0. */
static int status_ask(const struct options *o, struct link *c, enum proto_type type)
{
    struct proto_request request = {.type = type, .id = STATUS_ID};
    struct places places;
    struct buf frames = BUF_INIT;
    int r = places_find(&places, o), status = 0;

    if (r == 0) {
        r = places_connect(&places);
        if (r < 0 && r != -ENOMEM) {
            log_error("%s", error_text(r));
            status = EXITS_NO_DAEMON;
        }
    }
    places_fini(&places);
    if (status != 0) return status;
    if (r >= 0) {
        link_open(c, r);
        interrupt_block();
        r = link_hello(&frames);
    }
    if (r == 0) r = proto_write_request(&frames, &request);
    if (r == 0) r = link_send(c, &frames, -1);
    buf_fini(&frames);
    return r < 0 ? exits_say(r) : 0;
}

/* Wait for the event of @type. 0, or the exit status when something else came. */
static int status_await(struct link *c, enum proto_event_type type, struct proto_event *e)
{
    int64_t deadline = interrupt_now() + STATUS_WAIT_MS;

    for (;;) {
        int r = link_next(c, e, deadline, -1);

        if (r == CONN_CLOSED || r == -ETIMEDOUT) {
            log_error("the daemon %s", r == CONN_CLOSED ? "went away before it answered" : "does not answer");
            return EXITS_NO_DAEMON;
        }
        if (r < 0) return exits_say(r);
        if (e->type == type) return 0;
        if (e->type == PROTO_EV_ERROR) {
            log_error("%s", e->message.len ? e->message.data : strerror(e->code));
            r = exits_of_event(e->code, false);
        }
        proto_event_fini(e);
        if (r != 0) return r;
    }
}

static int status_print(const struct options *o, const struct proto_text *json)
{
    struct buf text = BUF_INIT, plain = BUF_INIT;
    struct output out;
    int status = EXITS_FAILED, r = status_format(&text, json->data, json->len, &status);

    output_init(&out, STDOUT_FILENO, false);
    if (r == 0 && o->json) {
        r = buf_append(&plain, json->data, json->len);
        if (r == 0) r = buf_puts(&plain, "\n");
    }
    if (r == 0) r = output_write(&out, o->json ? plain.data : text.data, o->json ? plain.len : text.len);
    if (r < 0) status = exits_say(r);
    buf_fini(&text);
    buf_fini(&plain);
    return status;
}

int status_run(const struct options *o)
{
    struct link c = CONN_INIT;
    struct proto_event e = {0};
    int status = status_ask(o, &c, PROTO_STATUS);

    if (status == 0) {
        status = status_await(&c, PROTO_EV_STATUS, &e);
        if (status == 0) {
            status = status_print(o, &e.status);
            proto_event_fini(&e);
        }
    }
    link_close(&c);
    return status;
}

int status_stop(const struct options *o)
{
    struct link c = CONN_INIT;
    struct proto_event e = {0};
    int r, status = status_ask(o, &c, PROTO_STOP);

    if (status == 0) status = status_await(&c, PROTO_EV_STOPPING, &e);
    if (status == 0) {
        proto_event_fini(&e);
        /* What was accepted is served first, so this lasts as long as it lasts. */
        while ((r = link_next(&c, &e, -1, -1)) == 0) proto_event_fini(&e);
        if (r < 0) status = exits_say(r);
    }
    link_close(&c);
    return status;
}
