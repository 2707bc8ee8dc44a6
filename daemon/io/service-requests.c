/* SPDX-License-Identifier: MIT */
/* Requests of connections: those that concern the daemon are answered here, the engine gets the others. */
#include "daemon/io/conn.h"
#include "daemon/io/service-state.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <jansson.h>
#include <string.h>
#include <unistd.h>

/* Status while the engine cannot answer it. */
static void send_status(struct service *s, struct conn *c, uint64_t id)
{
    const char *state = s->fail_code ? "failed" : "stopping";
    json_t *o = json_pack("{s:s, s:s?, s:i, s:s}", "state", state, "model", s->config.model, "pid", (int)getpid(),
                          "version", HOB_VERSION);
    _cleanup_(freep) char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    struct proto_event e = {.type = PROTO_EV_STATUS, .id = id};
    json_decref(o);
    if (!text) {
        conn_send_error(c, id, ENOMEM, strerror(ENOMEM));
        return;
    }
    e.status = (struct proto_text){text, strlen(text)};
    conn_send(c, &e);
}

static void stop(struct service *s, struct conn *c, uint64_t id)
{
    const struct proto_event e = {.type = PROTO_EV_STOPPING, .id = id};
    uid_t uid = conn_uid(c);
    if (uid != 0 && uid != geteuid()) {
        conn_send_error(c, id, EPERM, "only the daemon's own user and root may stop it");
        return;
    }
    service_find(s, conn_id(c))->asked = true;
    s->config.stop(s->config.ctx, uid);
    conn_send(c, &e);
}

void service_request(void *ctx, struct conn *c, struct proto_request *r)
{
    struct service *s = ctx;
    uint64_t id = r->id;
    if (r->type == PROTO_CANCEL) { /* a request that has just ended needs nothing */
        if (conn_is_live(c, id)) engine_cancel(s->engine, conn_id(c), id);
        return;
    }
    if (r->type == PROTO_STOP) {
        stop(s, c, id);
        return;
    }
    bool work = r->type != PROTO_STATUS;
    if (!work && (s->fail_code || s->draining)) {
        send_status(s, c, id);
        return;
    }
    if (s->fail_code) {
        conn_send_error(c, id, s->fail_code, s->fail_why);
        conn_finish(c);
        return;
    }
    int e;
    if (s->draining)
        e = error_say(-ESHUTDOWN, "the daemon is stopping");
    else
        e = conn_is_job(r->type) ? conn_begin_job(c, id, r->bytes) : conn_begin(c, id, r->bytes);
    if (e < 0) {
        conn_send_error(c, id, -e, error_text(e));
        return;
    }
    e = engine_submit(s->engine, conn_id(c), conn_uid(c), r);
    if (e < 0) {
        conn_send_error(c, id, -e, error_text(e));
        conn_end(c, id);
        return;
    }
    s->accepted += work;
}
