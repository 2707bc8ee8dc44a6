/* SPDX-License-Identifier: MIT */
#include "client/ask.h"
#include "client/exits.h"
#include "client/interrupt.h"
#include "client/places.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <string.h>

#define ASK_TRIES 4
#define ASK_NEXT  (-1) /* no exit status: another daemon may be asked */

/* 0, or the exit status. */
static int ask_connect(const struct options *o, struct link *c)
{
    struct places places;
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
    if (r < 0) return exits_say(r);
    link_open(c, r);
    interrupt_block();
    return 0;
}

/* A daemon that hangs up may have said why, so that is no failure here. 0, or the exit status. */
static int ask_send(struct link *c, const struct proto_request *request, bool hello)
{
    struct buf frames = BUF_INIT;
    int r = hello ? link_hello(&frames) : 0;

    if (r == 0) r = proto_write_request(&frames, request);
    if (r == 0) r = link_send(c, &frames, -1);
    buf_fini(&frames);
    return r < 0 ? exits_say(r) : 0;
}

static int ask_refused(const struct proto_event *e, enum ask_again again)
{
    if (e->code == ESHUTDOWN && again != ASK_ONCE) return ASK_NEXT;
    log_error("%s", e->message.len ? e->message.data : strerror(e->code));
    return exits_of_event(e->code, false);
}

/* 0, ASK_NEXT, or the exit status. */
static int ask_await(struct link *c, uint64_t id, const struct ask *how, struct proto_event *e)
{
    int64_t deadline = how->wait_ms >= 0 ? interrupt_now() + how->wait_ms : -1;

    for (;;) {
        int r = link_next(c, e, deadline, -1);

        if (r == CONN_CLOSED && (how->again == ASK_ANYWAY || (how->again == ASK_UNHEARD && !c->greeted)))
            return ASK_NEXT;
        if (r == CONN_CLOSED || r == -ETIMEDOUT) {
            log_error("the daemon %s",
                      r == CONN_CLOSED ? "closed the connection before it answered" : "does not answer");
            return EXITS_NO_DAEMON;
        }
        if (r < 0) return exits_say(r);
        if (e->type == how->want && e->id == id) return 0;
        /* An error without an id is about the connection. */
        r = e->type == PROTO_EV_ERROR && (e->id == id || e->id == 0) ? ask_refused(e, how->again) : 0;
        proto_event_fini(e);
        if (r != 0) return r;
    }
}

int ask(const struct options *o, struct link *c, const struct proto_request *request, const struct ask *how,
        struct proto_event *e)
{
    static const int pause_ms[ASK_TRIES] = {0, 0, 50, 250};

    for (int i = 0; i < ASK_TRIES; i++) {
        bool fresh = c->fd < 0;
        int status = pause_ms[i] > 0 && interrupt_sleep(pause_ms[i]) < 0 ? EXITS_INTERRUPTED : 0;

        if (status == 0 && fresh) status = ask_connect(o, c);
        if (status == 0) status = ask_send(c, request, fresh);
        if (status == 0) status = ask_await(c, request->id, how, e);
        if (status != ASK_NEXT) return status;
        link_close(c);
        interrupt_unblock();
    }
    log_error("the daemon closed the connection without an answer; try again");
    return EXITS_NO_DAEMON;
}
