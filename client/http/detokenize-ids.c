/* SPDX-License-Identifier: MIT */
/* POST /detokenize: the text of tokens, as in llama-server, with the texts of special tokens. */
#include "client/http/daemon-call.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/json-body.h"
#include "libcommon/error.h"
#include <stdlib.h>

static void on_text(void *ctx, struct proto_event *e, int r)
{
    struct exchange *x = ctx;
    if (!daemon_answered(x, e, r, PROTO_EV_DETOKENIZED)) return;
    json_t *text = json_stringn(e->text.data ? e->text.data : "", e->text.len);
    if (reply_json(x, json_pack("{s:o}", "content", text)) < 0) exchange_fail(x);
}

static int read_ids(struct proto_request *q, const json_t *list, struct fault *f)
{
    size_t i;
    json_t *id;
    if (!json_is_array(list)) return fault_set(f, 400, "tokens", "'tokens' must be a list of token ids");
    q->ids = calloc(json_array_size(list) + 1, sizeof(*q->ids));
    if (!q->ids) return fault_of_error(f, error_origin(-ENOMEM));
    json_array_foreach(list, i, id)
    {
        json_int_t n = json_integer_value(id);
        if (!json_is_integer(id) || n < 0 || n > INT32_MAX)
            return fault_set(f, 400, "tokens", "'tokens[%zu]' is not a token id", i);
        q->ids[q->n_ids++] = (int32_t)n;
    }
    return 0;
}

int route_detokenize(struct exchange *x)
{
    struct proto_request q = {.type = PROTO_DETOKENIZE, .special = true};
    json_t *object;
    int r = json_body_read(&object, &x->body, &x->fault);
    if (r == 0) r = read_ids(&q, json_object_get(object, "tokens"), &x->fault);
    if (r == 0)
        r = daemon_call(x, json_string_value(json_object_get(object, "model")), &q, on_text);
    else
        proto_request_fini(&q);
    json_decref(object);
    return r;
}
