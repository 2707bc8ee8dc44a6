/* SPDX-License-Identifier: MIT */
#include "client/http/daemon-call.h"
#include "client/http/model-list.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"

int daemon_call(struct exchange *x, const char *model, struct proto_request *q, upstream_fn fn)
{
    _cleanup_(freep) char *path = NULL;
    int r = model_find(x->gateway->options, model, &path, &x->fault);
    q->id = 1;
    if (r == 0) {
        r = upstream_open(&x->upstream, x->gateway->event, path, exchange_user(x), q, fn, x);
        if (r == -ENOENT || r == -EAGAIN)
            r = fault_set(&x->fault, 503, NULL, "%s", error_text(r));
        else if (r < 0)
            r = fault_of_error(&x->fault, r);
    }
    proto_request_fini(q);
    return r;
}

bool daemon_answered(struct exchange *x, const struct proto_event *e, int r, enum proto_event_type want)
{
    if (x->ended || (e && e->type != want && e->type != PROTO_EV_ERROR)) return false;
    x->upstream = upstream_close(x->upstream);
    if (e && e->type == want) return true;
    if (e)
        fault_of_event(&x->fault, e->code, e->message.data);
    else
        fault_set(&x->fault, 503, NULL, "%s", error_text(r));
    exchange_fail(x);
    return false;
}
