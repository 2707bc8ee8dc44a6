/* SPDX-License-Identifier: MIT */
/* GET /hob/status: the state of a model's daemon. */
#include "client/http/daemon-call.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"

/* The members for a client with a key or another uid. From the others, such as the cached tokens and the users, it
 * could learn about the prompts of others. */
static json_t *for_user(const json_t *all)
{
    static const char *const names[] = {"state",    "error", "model",   "name",   "version",  "uptime_s",        "ctx",
                                        "parallel", "queue", "running", "queued", "requests", "tokens_generated"};
    json_t *some = json_object();
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        json_t *v = json_object_get(all, names[i]);
        if (v) json_whole_set(some, names[i], json_incref(v));
    }
    return some;
}

static void on_status(void *ctx, struct proto_event *e, int r)
{
    struct exchange *x = ctx;
    if (!daemon_answered(x, e, r, PROTO_EV_STATUS)) return;
    json_t *all = json_loadb(e->status.data ? e->status.data : "", e->status.len, 0, NULL);
    if (!json_is_object(all)) {
        json_decref(all);
        r = fault_set(&x->fault, 502, NULL, "the daemon's status is not an object");
    } else if (exchange_user(x)) {
        json_t *some = for_user(all);
        json_decref(all);
        r = reply_json(x, some);
    } else {
        r = reply_json(x, all);
    }
    if (r < 0) exchange_fail(x);
}

int route_status(struct exchange *x)
{
    struct proto_request q = {.type = PROTO_STATUS};
    return daemon_call(x, MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, "model"), &q, on_status);
}
